//! Rows of text, their cells under each other. Pure.

use std::fmt::Write as _;

/// One line per row; cells are padded to the widest of their column, but for the last.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::aligned;

    #[test]
    fn cells_stand_under_each_other() {
        let rows = [["a".to_owned(), "é".to_owned(), "x y".to_owned()], ["bbb".to_owned(), String::new(), String::new()]];
        assert_eq!(aligned(&rows), "a    é  x y\nbbb\n");
        assert_eq!(aligned::<2>(&[]), "");
    }
}
