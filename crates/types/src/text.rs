//! Texts of limited length.

/// The beginning of a text that has so many bytes, or a few less where those would end amid a character.
///
/// ```
/// use forebay_types::beginning;
/// assert_eq!([beginning("né", 3), beginning("né", 2), beginning("né", 9)], ["né", "n", "né"]);
/// ```
pub fn beginning(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    // Not in the middle of a character, which has four bytes at most.
    let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// The end of a text that has so many bytes, or a few less where those would begin amid a character.
///
/// ```
/// use forebay_types::ending;
/// assert_eq!([ending("én", 3), ending("én", 2), ending("én", 9)], ["én", "n", "én"]);
/// ```
pub fn ending(text: &str, bytes: usize) -> &str {
    let first = text.len().saturating_sub(bytes);
    let begin = (first..=text.len()).find(|begin| text.is_char_boundary(*begin));
    &text[begin.unwrap_or(text.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_no_shorter_than_it_must_be() {
        let text = "aé€🌊z"; // characters of 1, 2, 3, 4 and 1 bytes
        let ends = [0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11];
        for (bytes, end) in ends.into_iter().enumerate() {
            assert_eq!(beginning(text, bytes), &text[..end], "{bytes} bytes");
        }
        assert_eq!(beginning(text, usize::MAX), text);
        assert_eq!(beginning("", 0), "");
    }
}
