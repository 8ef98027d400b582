//! What the conformance tests ask of this SDK; in every language the same.

use engine_step::{Error, Host, Request, Value};

engine_step::manifest!("probe.json");
#[cfg(not(feature = "command"))]
engine_step::reactor!(run);

#[cfg(feature = "command")]
fn main() {
    engine_step::command(run)
}

fn run(request: &Request, host: &Host) -> Result<Value, Error> {
    match request.step_type.as_str() {
        "echo" => Ok(echo(&request.input["value"])),
        "fail" => Err(fail(&request.input)),
        "host" => Ok(call(host)),
        "wait" => loop {
            std::hint::spin_loop()
        },
        "key" => Ok(request.idempotency_key.as_str().into()),
        "nothing" => panic!("there is nothing to say"),
        other => Err(Error::invalid_input("", other)),
    }
}

/// Reads a value and writes it anew.
fn echo(v: &Value) -> Value {
    match v {
        Value::Null => Value::Null,
        Value::Bool(_) => v.as_bool().expect("a bool").into(),
        Value::Number(_) => match v.as_i64() {
            Some(n) => n.into(),
            None => v.as_f64().expect("a number").into(),
        },
        Value::String(_) => v.as_str().expect("a string").into(),
        Value::Array(_) => Value::array(v.as_array().expect("an array").iter().map(echo)),
        Value::Object(o) => Value::object(o.iter().map(|(k, v)| (k.as_str(), echo(v)))),
    }
}

fn fail(input: &Value) -> Error {
    let text = |name: &str| input[name].as_str().unwrap_or_default().to_string();
    let class = match text("class").as_str() {
        "quota" => engine_step::Class::Quota,
        "rate_limited" => engine_step::Class::RateLimited,
        "validation" => engine_step::Class::Validation,
        _ => engine_step::Class::Internal,
    };
    Error {
        class,
        code: text("code"),
        message: text("message"),
        path: text("path"),
        retry_after_ms: input["retry_after_ms"].as_i64().map_or(0, |n| n as u64),
    }
}

/// Calls every operation, and one that no host knows.
fn call(host: &Host) -> Value {
    host.log("warn", "about to \"call\" 中文");
    host.progress(0.5, "half");
    host.emit("chunk");
    host.usage("m", 3, 2, 1);
    match host.call(&Value::object([("op", "nonsense".into())]), Some(b"\0raw")) {
        Ok(reply) => Value::object([("code", Value::Null), ("ok", reply.ok), ("size", reply.data.len().into())]),
        Err(error) => Value::object([("code", error.code.into()), ("ok", Value::Null), ("size", 0usize.into())]),
    }
}
