//! Tables for people at a terminal.

/// Columns side by side, numbers to the right. A column with nothing but zeros and gaps is left out.
pub(super) fn render(header: &[String], rows: &[Vec<String>]) -> String {
    let cell = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
    let vacuous = |column: &usize| {
        let mut cells = rows.iter().map(|row| cell(row, *column));
        !rows.is_empty() && cells.all(|text| text.is_empty() || text == "0")
    };
    let columns: Vec<_> = (0..header.len())
        .filter(|column| !vacuous(column))
        .collect();
    let lines = std::iter::once(header.to_vec()).chain(rows.iter().cloned());
    let lines: Vec<Vec<String>> = lines
        .map(|row| {
            columns
                .iter()
                .map(|column| plain(&cell(&row, *column)))
                .collect()
        })
        .collect();
    let width = |column: usize| {
        let widths = lines.iter().filter_map(|row| row.get(column));
        widths.map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let number = |column: usize| {
        let mut cells = lines.iter().skip(1).filter_map(|row| row.get(column));
        !rows.is_empty() && cells.all(|text| text.is_empty() || text.parse::<f64>().is_ok())
    };
    let shape: Vec<_> = (0..columns.len())
        .map(|column| (width(column), number(column)))
        .collect();
    let rendered: Vec<_> = lines
        .iter()
        .map(|row| {
            let cells = row.iter().zip(&shape).map(|(text, (width, number))| {
                if *number {
                    format!("{text:>width$}")
                } else {
                    format!("{text:<width$}")
                }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        })
        .collect();
    rendered.join("\n")
}

/// Names come from clients: nothing in them may steer the terminal.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: [&str; 4]) -> Vec<String> {
        cells.map(str::to_owned).to_vec()
    }

    #[test]
    fn numbers_stand_to_the_right_and_empty_columns_are_left_out() {
        let header = row(["model", "requests", "reasoning_tokens", "cost_usd"]);
        let rows = [
            row(["gpt-5.6", "1200", "0", "1.25"]),
            row(["a\u{1b}[2J", "7", "", "0.0005"]),
        ];
        insta::assert_snapshot!(render(&header, &rows), @r"
        model    requests  cost_usd
        gpt-5.6      1200      1.25
        a�[2J           7    0.0005
        ");
    }

    #[test]
    fn a_table_without_rows_is_its_header() {
        assert_eq!(render(&row(["a", "b", "c", "d"]), &[]), "a  b  c  d");
    }
}
