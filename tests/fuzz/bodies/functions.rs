//! A component with one function. The input has three parts: the first selects the types, the
//! second is the function's doc comment, and the third is the memory with the answer. A length
//! precedes each of the first two parts.

use std::fmt::Write as _;

/// The maximum number of input bytes that fill the memory.
const IMAGE: usize = 4096;

/// The maximum depth of nested types: more than the host allows.
const DEPTH: usize = 40;

/// The smallest number of flat values for which a function takes a pointer to them instead.
const MANY: usize = 17;

pub(crate) fn component(input: &[u8]) -> Vec<u8> {
    let (types, rest) = part(input);
    let (docs, image) = part(rest);
    let mut types = Types {
        bytes: types.iter().copied(),
        text: String::new(),
        made: Vec::new(),
    };
    let (mut parameters, mut flat) = (String::new(), Vec::new());
    for index in 0..types.next() % 4 {
        let name = match types.next() % 4 {
            0 => "skill-name".to_owned(),
            _ => format!("P{index}-x"),
        };
        let Type {
            name: ty,
            flat: values,
        } = types.make(0);
        let _ = write!(parameters, "(param \"{name}\" {ty})");
        flat.extend(values);
    }
    let result = match types.next() % 4 {
        0 => None,
        _ => Some(types.make(0)),
    };
    let core_parameters = if flat.len() < MANY { &*flat } else { &["i32"] };
    let (result_text, core_result, body) = match &result {
        None => (String::new(), String::new(), String::new()),
        Some(Type { name, flat }) => {
            let (core, body) = match &**flat {
                [] => (String::new(), String::new()),
                [one] => (
                    format!("(result {one})"),
                    format!("({one}.load (i32.const 0))"),
                ),
                _ => ("(result i32)".to_owned(), "(i32.const 0)".to_owned()),
            };
            (format!("(result {name})"), core, body)
        }
    };
    let text = format!(
        r#"(component
  {types}
  (core module $m
    (memory (export "memory") 2)
    (data (i32.const 0) "{image}")
    (global $next (mut i32) (i32.const 65536))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      global.get $next
      (global.set $next (i32.and (i32.const -8)
        (i32.add (i32.const 7) (i32.add (global.get $next) (local.get 3))))))
    (func (export "f") (param {core_parameters}) {core_result} {body}))
  (core instance $i (instantiate $m))
  (func $f {parameters} {result_text}
    (canon lift (core func $i "f") (memory (core memory $i "memory"))
      (realloc (core func $i "realloc"))))
  (export "do-it" (func $f))
  (@custom "package-docs" "{docs}"))"#,
        types = types.text,
        image = escaped(&image[..image.len().min(IMAGE)]),
        core_parameters = core_parameters.join(" "),
        docs = escaped(docs),
    );
    wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Splits off a part whose length is the first byte.
fn part(input: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = input.split_first().unwrap_or((&0, &[]));
    rest.split_at(rest.len().min((*length).into()))
}

fn escaped(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\{byte:02x}")).collect()
}

/// Types with their names, as text.
struct Types<I> {
    bytes: I,
    text: String,
    made: Vec<Type>,
}

#[derive(Clone)]
struct Type {
    name: String,
    /// Its values on WebAssembly's stack.
    flat: Vec<&'static str>,
}

impl<I: Iterator<Item = u8>> Types<I> {
    fn next(&mut self) -> usize {
        self.bytes.next().unwrap_or(0).into()
    }

    fn make(&mut self, depth: usize) -> Type {
        const PLAIN: [(&str, &[&str]); 13] = [
            ("bool", &["i32"]),
            ("s8", &["i32"]),
            ("u8", &["i32"]),
            ("s16", &["i32"]),
            ("u16", &["i32"]),
            ("s32", &["i32"]),
            ("u32", &["i32"]),
            ("s64", &["i64"]),
            ("u64", &["i64"]),
            ("f32", &["f32"]),
            ("f64", &["f64"]),
            ("char", &["i32"]),
            ("string", &["i32", "i32"]),
        ];
        let kind = self.next() % 24;
        if let Some((name, flat)) = PLAIN.get(if depth < DEPTH { kind } else { 0 }) {
            return Type {
                name: (*name).to_owned(),
                flat: flat.to_vec(),
            };
        }
        let (body, flat) = match kind {
            13 => {
                let element = self.make(depth + 1).name;
                (format!("list {element}"), vec!["i32", "i32"])
            }
            14 | 15 => self.fields(kind == 15, depth),
            16 => self.variant(depth),
            17 => (format!("enum {}", self.labels()), vec!["i32"]),
            18 => (format!("flags {}", self.labels()), vec!["i32"]),
            19 => {
                let some = self.make(depth + 1);
                (format!("option {}", some.name), cases([&some.flat]))
            }
            20 => {
                let which = self.next();
                let ok = (which & 1 != 0).then(|| self.make(depth + 1));
                let error = (which & 2 != 0).then(|| self.make(depth + 1));
                let mut body = "result".to_owned();
                if let Some(ok) = &ok {
                    let _ = write!(body, " {}", ok.name);
                }
                if let Some(error) = &error {
                    let _ = write!(body, " (error {})", error.name);
                }
                (body, cases(ok.iter().chain(&error).map(|ty| &ty.flat)))
            }
            // An existing type: this way a few bytes expand to a million types.
            21 | 22 => match self.next().checked_rem(self.made.len()) {
                Some(index) => return self.made[index].clone(),
                None => return self.make(depth + 1),
            },
            _ => self.without_json(),
        };
        let index = self.made.len();
        let _ = writeln!(
            self.text,
            "(type $t{index} ({body})) (export $e{index} \"t{index}\" (type $t{index}))"
        );
        let ty = Type {
            name: format!("$e{index}"),
            flat,
        };
        self.made.push(ty.clone());
        ty
    }

    fn fields(&mut self, named: bool, depth: usize) -> (String, Vec<&'static str>) {
        let (mut body, mut flat) = (
            if named { "record" } else { "tuple" }.to_owned(),
            Vec::new(),
        );
        for index in 0..self.next() % 6 {
            let field = self.make(depth + 1);
            let _ = if named {
                write!(body, " (field \"{}\" {})", label(index), field.name)
            } else {
                write!(body, " {}", field.name)
            };
            flat.extend(field.flat);
        }
        flat.truncate(MANY);
        (body, flat)
    }

    fn variant(&mut self, depth: usize) -> (String, Vec<&'static str>) {
        let (mut body, mut flats) = ("variant".to_owned(), Vec::new());
        for index in 0..self.next() % 6 {
            let _ = match self.next() % 3 {
                0 => write!(body, " (case \"{}\")", label(index)),
                _ => {
                    let payload = self.make(depth + 1);
                    flats.push(payload.flat);
                    write!(body, " (case \"{}\" {})", label(index), payload.name)
                }
            };
        }
        (body, cases(&flats))
    }

    fn labels(&mut self) -> String {
        let labels = 0..self.next() % 40;
        labels
            .map(|index| format!("\"{}\" ", label(index)))
            .collect()
    }

    /// Makes a type without a JSON form.
    fn without_json(&mut self) -> (String, Vec<&'static str>) {
        match self.next() % 6 {
            0 => ("stream u8".to_owned(), vec!["i32"]),
            1 => ("future".to_owned(), vec!["i32"]),
            2 => ("list u8 2".to_owned(), vec!["i32", "i32"]),
            3 => ("map string u8".to_owned(), vec!["i32", "i32"]),
            kind => {
                let index = self.made.len();
                let _ = writeln!(
                    self.text,
                    "(type $r{index} (resource (rep i32))) \
                     (export $x{index} \"r{index}\" (type $r{index}))"
                );
                let handle = if kind == 4 { "own" } else { "borrow" };
                (format!("{handle} $x{index}"), vec!["i32"])
            }
        }
    }
}

/// Returns the flat values of a variant: its case's number, then values that fit all cases.
fn cases<'a>(cases: impl IntoIterator<Item = &'a Vec<&'static str>>) -> Vec<&'static str> {
    let mut all = Vec::new();
    for case in cases {
        for (index, value) in case.iter().enumerate() {
            let Some(other) = all.get_mut(index) else {
                all.push(*value);
                continue;
            };
            *other = match (*other, *value) {
                (one, two) if one == two => one,
                ("i32" | "f32", "i32" | "f32") => "i32",
                _ => "i64",
            };
        }
    }
    all.insert(0, "i32");
    all.truncate(MANY);
    all
}

fn label(index: usize) -> String {
    match ["a", "b-c", "D2-e", "some", "ok", "err"].get(index) {
        Some(label) => (*label).to_owned(),
        None => format!("l{index}"),
    }
}
