//! Names that may have been meant by one that is not there.

/// Up to three names that are most alike.
pub fn alike<'a>(wanted: &str, names: &'a [String]) -> Vec<&'a str> {
    let bare = |name: &str| name.trim_matches('_').to_ascii_lowercase();
    let wanted = bare(wanted);
    let near = |name: &'a String| {
        let far = distance(&wanted, &bare(name));
        (far <= 1 + wanted.len() / 4).then_some((far, name.len(), name.as_str()))
    };
    let mut found: Vec<_> = names.iter().filter_map(near).collect();
    found.sort_unstable();
    found.into_iter().take(3).map(|(.., name)| name).collect()
}

/// How many letters are to be changed, put in or left out.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len().abs_diff(b.len()) > 4 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = before + usize::from(x != y);
            before = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(before + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_letter_wrong_is_found_among_those_that_there_are() {
        let names: Vec<String> = ["dgemm_", "dgemv_", "sgemm_", "zaxpy_"].map(String::from).to_vec();
        assert_eq!(alike("dgem_", &names)[0], "dgemm_");
        assert_eq!(alike("DGEMM", &names)[0], "dgemm_");
        assert!(alike("quicksort", &names).is_empty());
    }
}
