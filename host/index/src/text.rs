//! Splits text into terms: words, their stems, and pairs of characters.
//!
//! Skills and queries are split in the same way. `fields.rs` weighs the terms.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use rust_stemmers::{Algorithm, Stemmer};
use skillhost::line::is_hidden;
use unicode_normalization::UnicodeNormalization as _;

/// The maximum length of a word, in bytes. Guards against: hashes and encoded files that fill the
/// index with terms that nobody searches for.
const MAX_WORD_BYTES: usize = 40;

/// The maximum number of words and terms that stay cached for the next text. Guards against:
/// texts with ever new words, which fill the memory.
const MAX_CACHED: usize = 100_000;

/// English words that say nothing about a skill.
const STOP_WORDS: &str = "a about above after again against all also am an and any are as at be \
    because been before being below between both but by can cannot could d did do does doing don \
    down during each few for from further get give had has have having he help her here hers him \
    his how i if in into is it its itself just let lets like ll m make me more most my myself need \
    no nor not now of off on once only or other our ours out over own please re s same shall she \
    should so some somebody someone something such t than that the their them then there these \
    they this those through to too under until up us use used user using ve very want was we were \
    what when where whether which while who whom why will with would you your yours";

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A word.
    Word,
    /// A word of [`STOP_WORDS`].
    StopWord,
    /// A part of a word such as `GitHub`.
    Part,
    /// Two neighbouring characters of a writing system without blanks between words, or a single
    /// character without neighbours.
    Gram,
}

/// A word, a part of a word, or a gram, with its term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextToken<'a> {
    pub(crate) kind: TokenKind,
    /// The text as it was written, without hidden characters.
    pub(crate) written: &'a str,
    /// The text in lower case and without diacritics. Empty for a [`TokenKind::Part`].
    pub(crate) folded: &'a str,
    /// The term to search for.
    pub(crate) term: &'a str,
    /// The number of the term, valid until the next [`Analyzer::trim_cache`]. A stop word has
    /// [`TermNumber::MAX`] instead.
    pub(crate) number: TermNumber,
}

/// The number of a term in an [`Analyzer`].
pub(crate) type TermNumber = u32;

/// Splits text into tokens.
pub(crate) struct Analyzer {
    stemmer: Stemmer,
    /// The number of each folded word's term, or `None` for a stop word.
    words: HashMap<Box<str>, Option<TermNumber>, RandomState>,
    terms: Terms,
    /// A buffer for a folded word, which saves an allocation for each word.
    fold_buffer: String,
}

/// A table of terms and their numbers.
struct Terms {
    numbers: HashMap<Box<str>, TermNumber, RandomState>,
    /// The terms by their numbers.
    texts: Vec<Box<str>>,
}

impl Terms {
    /// Returns the number of a term, and gives a new term the next number.
    fn number(&mut self, term: &str) -> TermNumber {
        match self.numbers.get(term) {
            Some(number) => *number,
            None => {
                let number = self.texts.len() as TermNumber;
                self.numbers.insert(term.into(), number);
                self.texts.push(term.into());
                number
            }
        }
    }
}

impl Analyzer {
    pub(crate) fn new() -> Self {
        let words = STOP_WORDS.split_ascii_whitespace();
        Self {
            stemmer: Stemmer::create(Algorithm::English),
            words: words.map(|word| (word.into(), None)).collect(),
            terms: Terms {
                numbers: HashMap::default(),
                texts: Vec::new(),
            },
            fold_buffer: String::new(),
        }
    }

    /// Drops the cached words and terms if there are too many.
    pub(crate) fn trim_cache(&mut self) {
        if self.words.len() + self.terms.texts.len() > MAX_CACHED {
            self.words.retain(|_, term| term.is_none());
            self.terms.numbers.clear();
            self.terms.texts.clear();
        }
    }

    /// Returns the term with this number.
    pub(crate) fn term(&self, number: TermNumber) -> &str {
        &self.terms.texts[number as usize]
    }

    /// Passes each token of a [normalized](normalize) text to `visit`, in order.
    pub(crate) fn tokens(&mut self, text: &str, mut visit: impl FnMut(TextToken<'_>)) {
        let mut rest = text;
        while let Some(start) =
            rest.find(|c: char| WritingSystem::from_char(c) != WritingSystem::None)
        {
            rest = &rest[start..];
            let system = rest
                .chars()
                .next()
                .map_or(WritingSystem::None, WritingSystem::from_char);
            let end = rest.find(|c: char| !system.contains(c));
            let (run, after) = rest.split_at(end.unwrap_or(rest.len()));
            match system {
                WritingSystem::Spaced => {
                    let sign_length = sign_length(run, after);
                    let word = &rest[..run.len() + sign_length];
                    rest = &rest[word.len()..];
                    self.word_tokens(word, &mut visit);
                }
                system => {
                    rest = after;
                    for_each_gram(run, system, &mut self.terms, &mut visit);
                }
            }
        }
    }

    /// Passes a word to `visit`, and then its parts.
    fn word_tokens(&mut self, written: &str, visit: &mut impl FnMut(TextToken<'_>)) {
        if written.len() > MAX_WORD_BYTES {
            return;
        }
        let mut folded = std::mem::take(&mut self.fold_buffer);
        fold_into(written, &mut folded);
        match self.stem(&folded) {
            None => visit(TextToken {
                kind: TokenKind::StopWord,
                written,
                folded: &folded,
                term: &folded,
                number: TermNumber::MAX,
            }),
            Some((number, stem)) => {
                visit(TextToken {
                    kind: TokenKind::Word,
                    written,
                    folded: &folded,
                    term: stem,
                    number,
                });
                for_each_part(written.trim_end_matches(['+', '#']), |part| {
                    fold_into(part, &mut folded);
                    if let Some((number, term)) = self.stem(&folded) {
                        visit(TextToken {
                            kind: TokenKind::Part,
                            written: part,
                            folded: "",
                            term,
                            number,
                        });
                    }
                });
            }
        }
        self.fold_buffer = folded;
    }

    /// Returns the stem of a folded word and the stem's number, or `None` for a stop word.
    fn stem(&mut self, folded: &str) -> Option<(TermNumber, &str)> {
        let number = match self.words.get(folded) {
            Some(number) => (*number)?,
            None => {
                let number = self.terms.number(&self.stemmer.stem(folded));
                self.words.insert(folded.into(), Some(number));
                number
            }
        };
        Some((number, &self.terms.texts[number as usize]))
    }
}

/// Returns a text in Unicode's normalization form NFKC, without hidden characters.
///
/// Full-width letters become plain letters. Line breaks and other control characters stay,
/// because they separate words.
pub(crate) fn normalize(text: &str) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let visible = text.chars().filter(|c| c.is_control() || !is_hidden(*c));
    visible.nfkc().collect()
}

/// Returns a [normalized](normalize) text in lower case and without diacritics.
pub(crate) fn fold(text: &str) -> String {
    let mut folded = String::new();
    fold_into(text, &mut folded);
    folded
}

/// Replaces `folded` with the folded text.
fn fold_into(text: &str, folded: &mut String) {
    folded.clear();
    for c in text.chars() {
        match c {
            'A'..='Z' => folded.push(c.to_ascii_lowercase()),
            '\0'..='\x7f' => folded.push(c),
            'ß' | 'ẞ' => folded.push_str("ss"),
            // In writing systems without blanks, marks belong to the letter.
            c if !matches!(WritingSystem::from_char(c), WritingSystem::Spaced) => folded.push(c),
            c => {
                let letters = c.to_lowercase().nfd();
                folded.extend(letters.filter(|c| !is_diacritic(*c)));
            }
        }
    }
}

/// Returns whether a character is a mark that people often leave out: an accent, or a
/// vowel sign of Hebrew or Arabic.
fn is_diacritic(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{591}'..='\u{5bd}' | '\u{64b}'..='\u{65f}' | '\u{670}')
}

/// A writing system, or a group of them with the same rules for words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WritingSystem {
    /// Characters that belong to no word.
    None,
    /// Writing systems with blanks between words.
    Spaced,
    Han,
    Hiragana,
    Katakana,
    Hangul,
    /// Thai, Lao, Myanmar and Khmer.
    SouthEastAsian,
}

impl WritingSystem {
    fn from_char(c: char) -> Self {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' => Self::Spaced,
            '\0'..='\x7f' => Self::None,
            '\u{3005}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' => Self::Han,
            '\u{20000}'..='\u{3ffff}' => Self::Han,
            '\u{3041}'..='\u{309f}' => Self::Hiragana,
            '\u{30a1}'..='\u{30fa}' | '\u{30fc}'..='\u{30ff}' => Self::Katakana,
            '\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7af}' => Self::Hangul,
            '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' => {
                Self::SouthEastAsian
            }
            c if c.is_alphanumeric() || unicode_normalization::char::is_combining_mark(c) => {
                Self::Spaced
            }
            _ => Self::None,
        }
    }

    fn contains(self, c: char) -> bool {
        Self::from_char(c) == self
    }
}

/// Returns the length of the signs at the end of a short name such as C++, C# or F#.
fn sign_length(word: &str, after: &str) -> usize {
    let signs = after.find(|c| c != '+' && c != '#').unwrap_or(after.len());
    if word.len() <= 2 && signs <= 2 {
        signs
    } else {
        0
    }
}

/// Passes each pair of neighbours in a run of characters to `visit`.
///
/// A run of one character is a term in Chinese and Korean. Other writing systems get no term for
/// it, because it is usually a particle there.
fn for_each_gram(
    run: &str,
    system: WritingSystem,
    terms: &mut Terms,
    visit: &mut impl FnMut(TextToken<'_>),
) {
    let mut gram = |gram| TextToken {
        kind: TokenKind::Gram,
        written: gram,
        folded: gram,
        term: gram,
        number: terms.number(gram),
    };
    let ends = run.char_indices().map(|(start, c)| start + c.len_utf8());
    let mut previous = None;
    let mut start = 0;
    for end in ends {
        if let Some(previous) = previous.replace(start) {
            visit(gram(&run[previous..end]));
        } else if end == run.len() && matches!(system, WritingSystem::Han | WritingSystem::Hangul) {
            visit(gram(run));
        }
        start = end;
    }
}

/// Passes the parts of a word such as `GitHub`, `XMLParser` or `html5` to `visit`.
///
/// Does not call `visit` if the word is a single part.
fn for_each_part(word: &str, mut visit: impl FnMut(&str)) {
    // The fast path for most words.
    if word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return;
    }
    let kind = |c: char| match c {
        c if c.is_uppercase() => 'A',
        c if c.is_numeric() => '0',
        // Lower case, and marks, which belong to the letter before them.
        _ => 'a',
    };
    let mut part = |part: &str| {
        if part.len() > 1 && part.len() < word.len() {
            visit(part);
        }
    };
    let mut start = 0;
    let mut previous = None;
    for (position, c) in word.char_indices() {
        let current = kind(c);
        let mut following = word[position + c.len_utf8()..].chars().map(kind);
        let starts_part = match (previous, current) {
            (None, _) => false,
            // `xP` in `pdfParser`.
            (Some('a'), 'A') => true,
            // `LP` in `XMLParser`, but not `Fs` in `PDFs`.
            (Some('A'), 'A') => following.next() == Some('a') && following.next() == Some('a'),
            (Some('A'), 'a') => false,
            (Some(previous), current) => previous != current,
        };
        if starts_part {
            part(&word[start..position]);
            start = position;
        }
        previous = Some(current);
    }
    part(&word[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the terms of a text.
    fn terms(text: &str) -> Vec<String> {
        let mut terms = Vec::new();
        Analyzer::new().tokens(&normalize(text), |token| {
            if token.kind != TokenKind::StopWord {
                terms.push(token.term.to_owned());
            }
        });
        terms
    }

    #[test]
    fn finds_terms_of_every_writing_system() {
        for (text, expected) in [
            ("Merging PDFs, quickly!", "merg pdfs quick"),
            ("résumé Müller STRASSE straße", "resum muller strass strass"),
            ("C++ and C# or R", "c++ c# r"),
            (
                "GitHub XMLParser html5",
                "github git hub xmlparser xml parser html5 html",
            ),
            ("don't I'd we've", ""),
            ("ｐｄｆ ﬁle", "pdf file"),
            ("压缩图片", "压缩 缩图 图片"),
            ("Docker镜像", "docker 镜像"),
            ("画像を生成する", "画像 生成 する"),
            ("会의 한국어", "会 의 한국 국어"),
            ("Привет, мир", "привет мир"),
            ("กาแฟ", "กา าแ แฟ"),
            ("हिन्दी", "हिन्दी"),
            (".*+?^${}()|[]\\", ""),
            ("", ""),
        ] {
            assert_eq!(terms(text).join(" "), expected, "{text}");
        }
    }

    #[test]
    fn drops_hidden_characters_and_long_words() {
        for (text, expected) in [
            ("p\u{200b}d\u{ad}f", "pdf"),
            ("pdf\u{e0070}\u{e0064}", "pdf"),
            ("\u{202e}pdf", "pdf"),
            ("pdf\0docx\u{1b}x", "pdf docx x"),
            (&"a".repeat(MAX_WORD_BYTES + 1), ""),
        ] {
            assert_eq!(terms(text).join(" "), expected, "{text:?}");
        }
    }

    #[test]
    fn caches_a_limited_number_of_words() {
        let mut analyzer = Analyzer::new();
        for number in 0..MAX_CACHED + 10 {
            analyzer.trim_cache();
            analyzer.tokens(&format!("w{number}"), |token| {
                assert!((token.number as usize) < MAX_CACHED);
            });
        }
        assert!(analyzer.words.len() + analyzer.terms.texts.len() <= MAX_CACHED + 2);
        assert_eq!(analyzer.stem("the"), None);
        let (number, _) = analyzer.stem("walking").unwrap();
        assert_eq!(analyzer.stem("walks"), Some((number, "walk")));
    }
}
