//! A step that counts the words of a text.

use engine_step::{Error, Host, Request, Value};

engine_step::manifest!("../step.json");
engine_step::reactor!(run);

pub fn run(request: &Request, host: &Host) -> Result<Value, Error> {
    let input = &request.input;
    let text = input["text"].as_str().ok_or_else(|| Error::invalid_input("/text", "want a string"))?;
    let least = match input.get("least") {
        None => 1,
        Some(n) => n.as_i64().filter(|n| *n >= 1).ok_or_else(|| Error::invalid_input("/least", "want a whole number from 1"))?,
    };

    let mut total = 0i64;
    let mut words: Vec<(&str, i64)> = Vec::new();
    for word in text.split(&[' ', '\t', '\r', '\n'][..]).filter(|w| !w.is_empty()) {
        total += 1;
        match words.iter_mut().find(|(w, _)| *w == word) {
            Some((_, n)) => *n += 1,
            None => words.push((word, 1)),
        }
    }
    host.log("info", "the words are counted");

    words.retain(|(_, n)| *n >= least);
    let words = words.into_iter().map(|(word, n)| Value::object([("word", word.into()), ("count", n.into())]));
    Ok(Value::object([("total", total.into()), ("words", Value::array(words))]))
}
