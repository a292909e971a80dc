//! Tests of the reader with hostile texts: SKILL.md files with pieces removed, doubled,
//! swapped and inserted, and the slowest texts of each kind. The texts are the same in
//! every run. The tests of `check` use them too.

use super::*;

/// The texts to start from: one of each notation.
const SEEDS: [&str; 12] = [
    "---\nname: a\ndescription: Adds. Use for sums.\n---\n# Body\n\nSee [x](docs/a.md).\n",
    "\u{feff}---\r\nname: \"a\"\r\ndescription: >-\r\n  one\r\n\r\n  two\r\n---\r\n\r\nbody\r\n",
    "---\nname: a\ndescription: Use when: the user asks\nlicense: 'it''s'\n---\n",
    "---\nmetadata:\n  author: me\n  version: 1.0\n  deep: {a: [b, {c: d}]}\n---\n```\n[x](a)\n```\n",
    "---\nallowed-tools: [Read, \"Bash(git:*)\"]\ncompatibility: |\n    one\n      two\n...\nbody",
    "---\nallowed-tools:\n- Read\n- @b\nmetadata:\n\tauthor: me\n---\n[x]: <a b.md>\n",
    "---\na: &x [*x]\nb: !!str 1\n? c\n: d\n<<: *x\n---\n",
    "---\nname: a\nname: b\n\"quoted\": \"C:\\d\\n\"\n# comment\n--- \n",
    "---\n  name: é\n  description: 数据 - `code` @x\n---\n\n\n  body `` ` [x](%20) ``\n",
    "# no frontmatter\n---\nname: a\n---\n[a](../b) ![c](./d/e/f.png \"t\")\n",
    "---\nnever: closed\n",
    "",
];

/// The pieces to insert, separated by `¦`.
const PIECES: &str = "---\n¦---¦...\n¦\n¦\r\n¦\r¦\t¦ ¦  ¦:¦: ¦- ¦? ¦#¦ #¦'¦\"¦\\¦|¦>¦|2-\n¦[¦]¦{¦}¦,¦&a ¦\
    *a¦!!str ¦!¦%¦@¦`¦```\n¦~~~\n¦](¦)¦<¦\u{feff}¦\u{2028}¦\u{85}¦\0¦é¦😀¦name: ¦\
    metadata:\n  ¦description: ¦allowed-tools:\n- ";

/// Returns `count` hostile texts.
pub(crate) fn texts(count: usize) -> impl Iterator<Item = String> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    std::iter::repeat_with(move || {
        let mut text = random.choice(&SEEDS).to_owned();
        for _ in 0..=random.below(6) {
            mutate(&mut text, &mut random);
        }
        text
    })
    .take(count)
}

fn mutate(text: &mut String, random: &mut Random) {
    let (from, to) = random.range(text);
    match random.below(6) {
        0 => text.replace_range(from..to, ""),
        1 => text.insert_str(from, random.piece()),
        2 => text.replace_range(from..to, random.piece()),
        3 => {
            let piece = text[from..to].to_owned();
            text.insert_str(random.range(text).0, &piece);
        }
        4 => {
            let other = random.choice(&SEEDS);
            let (start, end) = random.range(other);
            text.insert_str(from, &other[start..end]);
        }
        _ => text.insert_str(from, &random.piece().repeat(random.below(100))),
    }
}

/// A xorshift generator, which returns the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let limit = limit.max(1) as u64;
        usize::try_from(self.0 % limit).unwrap_or(0)
    }

    fn choice(&mut self, texts: &[&'static str]) -> &'static str {
        texts[self.below(texts.len())]
    }

    fn piece(&mut self) -> &'static str {
        let pieces: Vec<_> = PIECES.split('¦').collect();
        self.choice(&pieces)
    }

    /// Returns a short range of a text. It starts and ends at character boundaries.
    fn range(&mut self, text: &str) -> (usize, usize) {
        let start = floor(text, self.below(text.len() + 1));
        let end = floor(text, (start + self.below(24)).min(text.len()));
        (start, end.max(start))
    }
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[test]
fn hostile_texts_do_not_break_the_reader() {
    for text in texts(4_000) {
        let reading = read(&text);
        let split = &reading.split;
        let last_line = 1 + text.bytes().filter(|&byte| byte == b'\n').count();
        let in_file = |line: u32| (1..=last_line).contains(&(line as usize));

        assert!(text.ends_with(split.body), "{text:?}");
        let before = &text[..text.len() - split.body.len()];
        let line_ends = before.bytes().filter(|&byte| byte == b'\n').count();
        assert_eq!(split.body_line as usize, 1 + line_ends, "{text:?}");
        assert!(
            split.yaml.is_none_or(|yaml| before.contains(yaml)),
            "{text:?}"
        );
        assert!(split.yaml.is_none() || !split.unclosed, "{text:?}");
        for line in lines(&reading) {
            assert!(in_file(line), "line {line} of {last_line}: {text:?}");
        }
        if split.yaml.is_none() {
            assert_eq!(reading.frontmatter, Frontmatter::default(), "{text:?}");
        }
    }
}

/// Returns every line number in a reading.
fn lines(reading: &Reading<'_>) -> Vec<u32> {
    let found = &reading.frontmatter;
    let texts = [
        &found.name,
        &found.description,
        &found.license,
        &found.compatibility,
        &found.allowed_tools,
    ];
    let metadata = found.metadata.iter();
    let mut lines = vec![reading.split.body_line];
    lines.extend(texts.into_iter().flatten().map(|field| field.line));
    lines.extend(metadata.clone().map(|field| field.line));
    lines.extend(
        metadata
            .flat_map(|field| &field.value)
            .map(|pair| pair.line),
    );
    lines.extend(found.unknown.iter().map(|pair| pair.line));
    lines.extend(reading.problems.iter().map(|problem| problem.line));
    lines
}

/// The pieces whose repetition makes the slowest texts of each kind, separated by `¦`.
const WORST: &str = "[¦{¦- ¦? ¦a: ¦a:\n¦a: b: c\n¦&a ¦*a ¦!a ¦!¦\"¦'¦\\¦# \n¦\t¦\n¦\r¦ \n¦a: |\n¦\
    a: >\n\n¦a: \"\n¦[a, ¦{a: ¦a: &a [*a,*a]\n¦metadata:\n a: @\n¦ a:\n¦a b ¦é¦- - - ¦\
    a: 'b\n¦<<: ¦%¦: ¦|¦\u{feff}¦a: [\n¦a: {b: c}\n¦\"a\": ¦? a\n¦...¦--- ";

const PREFIXES: &str = "¦a: ¦a:\n  ¦description: @¦metadata:\n  a: @\n  ¦a: \"¦a: |\n  ";

/// Reads texts of the maximum length, each the slowest of its kind. The bound is far above linear
/// time in a debug build, and far below quadratic time.
#[test]
fn hostile_frontmatter_takes_little_time() {
    for piece in WORST.split('¦') {
        for prefix in PREFIXES.split('¦') {
            let bytes = MAX_FRONTMATTER_BYTES - prefix.len() - 1;
            let text = format!(
                "---\n{prefix}{}\n---\nbody",
                piece.repeat(bytes / piece.len())
            );
            let start = processor_time();
            read(&text);
            let took = processor_time() - start;
            assert!(took.as_secs() < 2, "{prefix:?} and {piece:?} took {took:?}");
        }
    }
}

/// Returns the processor time of this thread, which does not depend on other work of the
/// machine.
pub(crate) fn processor_time() -> std::time::Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanoseconds = statistics.split(' ').next().unwrap().parse().unwrap();
    std::time::Duration::from_nanos(nanoseconds)
}

/// On a kernel that does not count processor time, the tests that measure it would always pass.
#[test]
fn processor_time_of_a_thread_is_counted() {
    let is_counted = (0..1_000_000).any(|_| {
        std::hint::black_box(read("---\nname: a\n---\n"));
        processor_time().as_millis() > 0
    });
    assert!(is_counted);
}
