//! Hidden characters. This file has no dependencies, because the guest
//! `list-files-in-skill` includes it too.

/// Returns whether a character is invisible or displayed as something else: control and
/// format characters (bidirectional controls, joiners, tags), default ignorable characters
/// (variation selectors, fillers), line and paragraph separators, private use,
/// noncharacters, and characters with blank glyphs.
///
/// These are the general categories Cc, Cf, Zl, Zp and Co and the properties
/// `Default_Ignorable_Code_Point` and `Noncharacter_Code_Point` of Unicode 16. The
/// characters with blank glyphs are the Braille blank, two blanks of Egyptian
/// hieroglyphs, the filler of the Khitan small script and the musical null notehead.
/// White space is not hidden.
pub fn is_hidden(c: char) -> bool {
    // Most text is printable ASCII.
    if matches!(c, ' '..='~') {
        return false;
    }
    c.is_control()
        || matches!(c,
            '\u{ad}'
            | '\u{34f}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{e000}'..='\u{f8ff}'
            | '\u{fdd0}'..='\u{fdef}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{13441}'..='\u{13442}'
            | '\u{16fe4}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d159}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
            | '\u{f0000}'..)
        || u32::from(c) & 0xfffe == 0xfffe
}
