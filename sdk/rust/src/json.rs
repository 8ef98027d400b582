use std::fmt::{self, Write};

/// A JSON value. Numbers are kept as they are written, members in their order.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Number(String),
    String(String),
    Array(Vec<Value>),
    Object(Vec<(String, Value)>),
}

/// Why a text is not one JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The byte where reading stopped.
    pub offset: usize,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "not JSON at byte {}", self.offset)
    }
}

impl std::error::Error for ParseError {}

static NULL: Value = Value::Null;

impl Value {
    /// Reads one value of at most 200 levels. Any text may be given.
    pub fn parse(text: &str) -> Result<Value, ParseError> {
        let mut r = Reader { text, at: 0 };
        let value = r.value(0).filter(|_| {
            r.space();
            r.at == text.len()
        });
        value.ok_or(ParseError { offset: r.at })
    }

    pub fn object<K: Into<String>>(members: impl IntoIterator<Item = (K, Value)>) -> Value {
        Value::Object(members.into_iter().map(|(k, v)| (k.into(), v)).collect())
    }

    pub fn array(elements: impl IntoIterator<Item = Value>) -> Value {
        Value::Array(elements.into_iter().collect())
    }

    /// The member of an object; `None` also for what is no object.
    pub fn get(&self, name: &str) -> Option<&Value> {
        match self {
            Value::Object(members) => members.iter().find(|(k, _)| k == name).map(|(_, v)| v),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(s) => Some(s),
            _ => None,
        }
    }

    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(a) => Some(a),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Number(n) => n.parse().ok(),
            _ => None,
        }
    }

    /// A whole number, also one written as 3.0 or 3e0.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Number(n) => n.parse().ok().or_else(|| {
                let whole = |f: &f64| f.fract() == 0.0 && f.abs() <= 9007199254740992.0;
                n.contains(&['.', 'e', 'E'][..]).then(|| n.parse::<f64>().ok().filter(whole)).flatten().map(|f| f as i64)
            }),
            _ => None,
        }
    }
}

/// The member of an object; `Null` when there is none.
impl std::ops::Index<&str> for Value {
    type Output = Value;
    fn index(&self, name: &str) -> &Value {
        self.get(name).unwrap_or(&NULL)
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Value {
        Value::String(s.to_string())
    }
}

impl From<String> for Value {
    fn from(s: String) -> Value {
        Value::String(s)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Value {
        Value::Bool(b)
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Value {
        Value::Number(n.to_string())
    }
}

impl From<usize> for Value {
    fn from(n: usize) -> Value {
        Value::Number(n.to_string())
    }
}

/// JSON has no infinities and no NaN; they become `Null`.
impl From<f64> for Value {
    fn from(n: f64) -> Value {
        if n.is_finite() {
            Value::Number(format!("{:?}", n))
        } else {
            Value::Null
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(b) => write!(f, "{}", b),
            Value::Number(n) => f.write_str(n),
            Value::String(s) => quote(f, s),
            Value::Array(a) => {
                f.write_char('[')?;
                for (i, v) in a.iter().enumerate() {
                    f.write_str(if i > 0 { "," } else { "" })?;
                    v.fmt(f)?;
                }
                f.write_char(']')
            }
            Value::Object(o) => {
                f.write_char('{')?;
                for (i, (k, v)) in o.iter().enumerate() {
                    f.write_str(if i > 0 { "," } else { "" })?;
                    quote(f, k)?;
                    f.write_char(':')?;
                    v.fmt(f)?;
                }
                f.write_char('}')
            }
        }
    }
}

fn quote(f: &mut fmt::Formatter, s: &str) -> fmt::Result {
    f.write_char('"')?;
    let mut from = 0;
    for (i, b) in s.bytes().enumerate() {
        if b >= b' ' && b != b'"' && b != b'\\' {
            continue;
        }
        f.write_str(&s[from..i])?;
        from = i + 1;
        if b < b' ' {
            write!(f, "\\u{:04x}", b)?;
        } else {
            write!(f, "\\{}", b as char)?;
        }
    }
    f.write_str(&s[from..])?;
    f.write_char('"')
}

const MAX_DEPTH: usize = 200;

/// Every method returns `None` where the text is not JSON; `at` stays there.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    fn take(&mut self, token: &str) -> Option<()> {
        if !self.text.as_bytes()[self.at..].starts_with(token.as_bytes()) {
            return None;
        }
        self.at += token.len();
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.space();
        match self.peek() {
            b'"' => self.string().map(Value::String),
            b'[' if depth < MAX_DEPTH => {
                let mut elements = Vec::new();
                self.at += 1;
                while self.more(elements.is_empty(), b']')? {
                    elements.push(self.value(depth + 1)?);
                }
                Some(Value::Array(elements))
            }
            b'{' if depth < MAX_DEPTH => {
                let mut members = Vec::new();
                self.at += 1;
                while self.more(members.is_empty(), b'}')? {
                    self.space();
                    let name = self.string()?;
                    self.space();
                    self.take(":")?;
                    members.push((name, self.value(depth + 1)?));
                }
                Some(Value::Object(members))
            }
            b'n' => self.take("null").map(|_| Value::Null),
            b't' => self.take("true").map(|_| Value::Bool(true)),
            b'f' => self.take("false").map(|_| Value::Bool(false)),
            _ => self.number(),
        }
    }

    /// Whether another element or member follows; reads the comma or the end.
    fn more(&mut self, first: bool, close: u8) -> Option<bool> {
        self.space();
        if self.peek() == close {
            self.at += 1;
            return Some(false);
        }
        if !first {
            self.take(",")?;
        }
        Some(true)
    }

    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        (self.at > from).then(|| ())
    }

    fn number(&mut self) -> Option<Value> {
        let from = self.at;
        let _ = self.take("-");
        if self.take("0").is_none() {
            self.digits()?;
        }
        if self.take(".").is_some() {
            self.digits()?;
        }
        if self.take("e").or_else(|| self.take("E")).is_some() {
            let _ = self.take("+").or_else(|| self.take("-"));
            self.digits()?;
        }
        Some(Value::Number(self.text[from..self.at].to_string()))
    }

    fn string(&mut self) -> Option<String> {
        self.take("\"")?;
        let mut s = String::new();
        loop {
            let from = self.at;
            while !matches!(self.peek(), b'"' | b'\\' | 0..=0x1f) {
                self.at += 1;
            }
            s.push_str(&self.text[from..self.at]);
            if self.take("\"").is_some() {
                return Some(s);
            }
            self.take("\\")?;
            let c = self.peek();
            let escaped = match c {
                b'"' | b'\\' | b'/' => c as char,
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                b'u' => '\0',
                _ => return None,
            };
            self.at += 1;
            s.push(if c == b'u' { self.unicode()? } else { escaped });
        }
    }

    /// Reads the digits of `\uXXXX`, and the second half of a pair.
    fn unicode(&mut self) -> Option<char> {
        let mut unit = self.hex4()?;
        if (0xD800..0xDC00).contains(&unit) {
            self.take("\\u")?;
            let low = self.hex4()?;
            if !(0xDC00..0xE000).contains(&low) {
                return None;
            }
            unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
        }
        char::from_u32(unit)
    }

    fn hex4(&mut self) -> Option<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4)?;
        let mut n = 0;
        for &d in digits {
            n = n << 4 | (d as char).to_digit(16)?;
        }
        self.at += 4;
        Some(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        for text in [
            "null", "true", "-0", "1e400", "123456789012345678901234567890", r#""""#, r#""\u0000\u001f\"\\/ 中文 🏴 é""#,
            "[]", "{}", r#"[1,[2,{"a":{"b":[]}}],"x"]"#, r#"{"":{"\n":1}}"#.replace("\\n", "\\u000a").as_str(),
        ] {
            assert_eq!(Value::parse(text).map(|v| v.to_string()), Ok(text.to_string()));
        }
        assert_eq!(Value::parse(r#" "\ud83c\udff4\u00e9\b\f\n\r\t\/" "#), Ok("🏴é\u{8}\u{c}\n\r\t/".into()));
    }

    #[test]
    fn refuses() {
        for (text, offset) in [
            ("", 0), ("nul", 0), ("[1,]", 3), ("[1 2]", 3), ("{\"a\"}", 4), ("{a:1}", 1), ("01", 1), ("1.", 2), ("+1", 0), ("\"", 1),
            ("\"\n\"", 1), ("\"\\x\"", 2), ("\"\\ud800\"", 7), ("\"\\ud800\\u0041\"", 13), ("\"\\udc00\"", 7), ("\"\\u00é\"", 3), ("1 1", 2),
        ] {
            assert_eq!(Value::parse(text), Err(ParseError { offset }), "{}", text);
        }
        assert!(Value::parse(&"[".repeat(100_000)).is_err());
        assert!(Value::parse(&("[".repeat(200) + &"]".repeat(200))).is_ok());
    }

    #[test]
    fn numbers() {
        for (text, whole) in [("7", Some(7)), ("7.0", Some(7)), ("-7e1", Some(-70)), ("7.5", None), ("1e300", None), ("9223372036854775808", None)] {
            assert_eq!(Value::parse(text).map(|v| v.as_i64()), Ok(whole), "{}", text);
        }
        assert_eq!(Value::from(0.1).to_string(), "0.1");
        assert_eq!(Value::from(f64::NAN), Value::Null);
        assert_eq!(Value::from(1e300).as_f64(), Some(1e300));
    }
}
