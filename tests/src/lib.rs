//! Tests of the whole: the architecture's rules, the real binary end to end, and the bodies of the fuzz targets.

pub mod fuzz;
