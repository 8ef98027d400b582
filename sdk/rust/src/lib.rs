//! A step of the engine in Rust. A step is a function from a request to a JSON
//! value or an error:
//!
//! ```ignore
//! use engine_step::{Error, Host, Request, Value};
//!
//! engine_step::manifest!("step.json");
//! engine_step::reactor!(run);
//!
//! fn run(request: &Request, host: &Host) -> Result<Value, Error> {
//!     let name = request.input["name"].as_str();
//!     let name = name.ok_or_else(|| Error::invalid_input("/name", "want a string"))?;
//!     host.log("info", "greeting");
//!     Ok(Value::object([("greeting", format!("Hello, {}!", name).into())]))
//! }
//! ```
//!
//! A reactor is a `cdylib`. A command is a program whose `main` calls
//! [`command`]; both behave alike. An instance lives for one attempt: there is
//! no state to keep, and a panic ends the attempt as `plugin_crash` with its
//! message.

mod error;
mod host;
mod json;

pub use error::{Class, Error};
pub use host::{Host, Reply};
pub use json::{ParseError, Value};

use std::io::{Read, Write};

/// What a step receives for one attempt.
pub struct Request {
    /// The step type; "run" for a module without a manifest.
    pub step_type: String,
    /// An object, the step's input.
    pub input: Value,
    /// An object, the plugin's configuration.
    pub config: Value,
    /// Equal on every attempt for the same input.
    pub idempotency_key: String,
    /// The whole request, with workflow, step, attempt and deadline_ms.
    pub all: Value,
}

/// Embeds the manifest, a file beside the source, in the module.
#[macro_export]
macro_rules! manifest {
    ($file:expr) => {
        #[cfg(target_family = "wasm")]
        #[link_section = "engine.step"]
        #[used]
        static ENGINE_MANIFEST: [u8; include_bytes!($file).len()] = *include_bytes!($file);
    };
}

/// Makes a function `fn(&Request, &Host) -> Result<Value, Error>` the step of a
/// reactor. The crate must be a `cdylib`.
#[macro_export]
macro_rules! reactor {
    ($run:path) => {
        #[cfg(target_family = "wasm")]
        #[no_mangle]
        pub extern "C" fn step_run(n: usize) {
            $crate::step_run(n, $run)
        }
        #[cfg(not(target_family = "wasm"))]
        const _: fn(&$crate::Request, &$crate::Host) -> Result<$crate::Value, $crate::Error> = $run;
    };
}

/// The same as [`command`], as what it is: a function of a step.
pub type Run = fn(&Request, &Host) -> Result<Value, Error>;

/// Runs one attempt of a command: the request is on stdin, the response goes to
/// stdout. Call it from `main`.
pub fn command(run: Run) {
    let mut request = String::new();
    std::io::stdin().read_to_string(&mut request).expect("the request is read from stdin");
    let response = respond(&request, run, &Host::new(&host::file));
    std::io::stdout().write_all(response.as_bytes()).expect("the response is written to stdout");
}

/// Runs one attempt of a reactor. [`reactor!`] calls it.
#[cfg(target_family = "wasm")]
pub fn step_run(n: usize, run: Run) {
    let request = String::from_utf8(host::message(n)).expect("the host sends UTF-8");
    let response = respond(&request, run, &Host::new(&host::import));
    host::response(response.as_bytes());
}

/// The response of a step to the text of a request. Tests may call it with a
/// [`Host`] of their own.
pub fn respond(request: &str, run: Run, host: &Host) -> String {
    let all = Value::parse(request).expect("the host sends JSON");
    let text = |name: &str| all[name].as_str().unwrap_or_default().to_string();
    let request = Request {
        step_type: text("step_type"),
        input: all["input"].clone(),
        config: all["config"].clone(),
        idempotency_key: text("idempotency_key"),
        all,
    };
    let response = match run(&request, host) {
        Ok(output) => Value::object([("output", output)]),
        Err(error) => Value::object([("error", error.into())]),
    };
    response.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greet(request: &Request, host: &Host) -> Result<Value, Error> {
        let name = request.input["name"].as_str();
        let name = name.ok_or_else(|| Error::invalid_input("/name", "want a string"))?;
        host.log("info", name);
        let reply = host.call(&Value::object([("op", "x".into())]), Some(b"\0raw"))?;
        Ok(Value::array([name.into(), reply.ok, (reply.data.len() as i64).into()]))
    }

    #[test]
    fn responds() {
        let seen = std::cell::RefCell::new(Vec::new());
        let answer = |message: &[u8]| {
            seen.borrow_mut().push(String::from_utf8_lossy(message).to_string());
            b"{\"ok\":{\"n\":1}}\0\0data".to_vec()
        };
        let host = Host::new(&answer);
        assert_eq!(respond(r#"{"step_type":"s","input":{"name":"中文 🏴"}}"#, greet, &host), r#"{"output":["中文 🏴",{"n":1},5]}"#);
        assert_eq!(
            *seen.borrow(),
            ["{\"op\":\"log\",\"level\":\"info\",\"message\":\"中文 🏴\"}", "{\"op\":\"x\"}\0\0raw"]
        );
        assert_eq!(
            respond(r#"{"input":{}}"#, greet, &host),
            r#"{"error":{"class":"invalid_input","message":"want a string","path":"/name"}}"#
        );
    }

    #[test]
    fn refusals_are_errors() {
        let refuse = |_: &[u8]| br#"{"error":{"class":"invalid_input","code":"unsupported_op","message":"no","retry_after_ms":5}}"#.to_vec();
        let error = Host::new(&refuse).call(&Value::object([("op", "x".into())]), None).err().expect("a refusal");
        assert_eq!(error.to_string(), "invalid_input/unsupported_op: no");
        assert_eq!(error.retry_after_ms, 5);
    }
}
