//! As much JSON as a step needs. The host has checked the request: it is one
//! value, valid UTF-8, without lone surrogates and at most 200 levels deep, so
//! that reading may recurse and `expect` names only what cannot happen.

pub enum Json {
    Str(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
    /// A number, `true`, `false` or `null`, as written.
    Other(String),
}

impl Json {
    pub fn parse(text: &str) -> Json {
        Reader { b: text.as_bytes(), text, at: 0 }.value()
    }

    /// The member of an object; `None` also for what is no object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|(k, _)| k == name).map(|(_, v)| v),
            _ => None,
        }
    }

    pub fn str(&self) -> Option<&str> {
        if let Json::Str(s) = self { Some(s) } else { None }
    }

    pub fn array(&self) -> Option<&[Json]> {
        if let Json::Array(a) = self { Some(a) } else { None }
    }

    pub fn integer(&self) -> Option<i64> {
        if let Json::Other(n) = self { n.parse().ok() } else { None }
    }
}

struct Reader<'a> {
    b: &'a [u8],
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    /// Skips white space and returns the byte that follows.
    fn peek(&mut self) -> u8 {
        while matches!(self.b[self.at], b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.b[self.at]
    }

    /// Whether another element follows in an array or object that `close` ends;
    /// consumes the comma or the end.
    fn more(&mut self, first: bool, close: u8) -> bool {
        let c = self.peek();
        if c == close || !first {
            self.at += 1;
        }
        c != close
    }

    fn value(&mut self) -> Json {
        match self.peek() {
            b'"' => Json::Str(self.string()),
            b'[' => {
                self.at += 1;
                let mut a = Vec::new();
                while self.more(a.is_empty(), b']') {
                    a.push(self.value());
                }
                Json::Array(a)
            }
            b'{' => {
                self.at += 1;
                let mut o = Vec::new();
                while self.more(o.is_empty(), b'}') {
                    self.peek();
                    let key = self.string();
                    self.peek();
                    self.at += 1; // the colon
                    o.push((key, self.value()));
                }
                Json::Object(o)
            }
            _ => {
                let from = self.at;
                while self.at < self.b.len() && !b",]} \t\r\n".contains(&self.b[self.at]) {
                    self.at += 1;
                }
                Json::Other(self.text[from..self.at].to_string())
            }
        }
    }

    fn string(&mut self) -> String {
        let mut s = String::new();
        loop {
            self.at += 1; // the quote, or the last byte of an escape
            let from = self.at;
            while self.b[self.at] != b'"' && self.b[self.at] != b'\\' {
                self.at += 1;
            }
            s.push_str(&self.text[from..self.at]);
            if self.b[self.at] == b'"' {
                self.at += 1;
                return s;
            }
            self.at += 1;
            s.push(match self.b[self.at] {
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                b'u' => self.unicode(),
                c => c as char, // a quote or a slash of either kind
            });
        }
    }

    /// Reads the digits of `\uXXXX`, and of the second half of a pair.
    fn unicode(&mut self) -> char {
        let mut unit = self.hex4();
        if (0xD800..0xDC00).contains(&unit) {
            self.at += 2; // the second \u
            unit = 0x10000 + ((unit - 0xD800) << 10) + (self.hex4() - 0xDC00);
        }
        char::from_u32(unit).expect("the host refuses lone surrogates")
    }

    fn hex4(&mut self) -> u32 {
        self.at += 4;
        u32::from_str_radix(&self.text[self.at - 3..=self.at], 16).expect("the host checks escapes")
    }
}

/// Appends `s` as a JSON string.
pub fn quote(out: &mut String, s: &str) {
    out.push('"');
    for c in s.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}
