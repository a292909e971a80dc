//! Compares the SDK's string checks with a model: a walker that follows the path from a folder,
//! once with `/` as the separator, and once with `/` and `\`.

use skillhost_guest::{PathError, SkillPath, check_skill_name};

pub(crate) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let checked = SkillPath::new(&text);
    assert_eq!(checked.as_ref().err().copied(), expected(&text), "{text:?}");
    if let Ok(path) = checked {
        assert_eq!(path.as_str(), text);
        check_normalized(&path);
    }
    assert_eq!(check_skill_name(&text), is_name(&text), "{text:?}");
}

/// Returns the expected error of the check, or `None` if the path is valid.
fn expected(text: &str) -> Option<PathError> {
    if text.is_empty() {
        return Some(PathError::Empty);
    }
    if has_control(text) {
        return Some(PathError::ControlCharacter);
    }
    // The walker cannot follow absolute paths, because it starts in the folder.
    let mut letters = text.chars();
    let (first, second) = (letters.next(), letters.next());
    let drive = second == Some(':') && matches!(first, Some('a'..='z' | 'A'..='Z'));
    let rooted = drive || first == Some('/') || first == Some('\\');
    let leaves = Walker::new(&['/']).leaves(text) || Walker::new(&['/', '\\']).leaves(text);
    (rooted || leaves).then_some(PathError::Outside)
}

/// A walker that reads a path letter by letter.
struct Walker {
    separators: &'static [char],
    /// The names of the folders below the start.
    below: Vec<String>,
    name: String,
    outside: bool,
}

impl Walker {
    fn new(separators: &'static [char]) -> Self {
        Self {
            separators,
            below: Vec::new(),
            name: String::new(),
            outside: false,
        }
    }

    /// Returns whether any step of the walk is outside.
    fn leaves(mut self, path: &str) -> bool {
        for letter in path.chars() {
            if self.separators.contains(&letter) {
                self.step();
            } else {
                self.name.push(letter);
            }
        }
        self.step();
        self.outside
    }

    fn step(&mut self) {
        let name = std::mem::take(&mut self.name);
        if name == ".." {
            self.outside |= self.below.pop().is_none();
        } else if !name.is_empty() && name != "." {
            self.below.push(name);
        }
    }
}

/// Checks that the normalized path leads only downwards to the path's target.
fn check_normalized(path: &SkillPath<'_>) {
    let normalized = path.normalized();
    if normalized != "." {
        for name in normalized.split('/') {
            assert!(
                !matches!(name, "" | "." | ".."),
                "{normalized:?} of {path:?}"
            );
        }
    }
    let mut walker = Walker::new(&['/']);
    for part in path.as_str().split('/') {
        walker.name = part.to_owned();
        walker.step();
    }
    let target = walker.below.join("/");
    assert_eq!(normalized, if target.is_empty() { "." } else { &target });
}

/// Returns whether a text has control characters, by their code points.
fn has_control(text: &str) -> bool {
    text.chars()
        .any(|c| matches!(u32::from(c), 0..=0x1f | 0x7f..=0x9f))
}

fn is_name(text: &str) -> bool {
    let one_entry = !text.contains('/') && !text.contains('\\') && !has_control(text);
    let two_dots = text.as_bytes().windows(2).any(|pair| pair == b"..");
    one_entry && !two_dots && !matches!(text, "" | ".")
}
