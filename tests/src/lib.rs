//! Tests of the whole: the architecture's rules, and the real binary end to end. The library itself is empty.
