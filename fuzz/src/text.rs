//! Bytes as text: the JSON of every message, signatures, addresses.

use forebay_link::net::{Address, Fingerprint, Network};
use forebay_types::call::{Attached, ServerRequest};
use forebay_types::control::{Ask, Resume, RunOpened, RunRequest};
use forebay_types::directory::{BrokerRequest, Directory};
use forebay_types::line::{LineRequest, RemoteAttached, RemoteOpened, RemoteResumed};
use forebay_types::reading::Question;
use forebay_types::watch::{Act, Declare};
use forebay_types::{Name, Signature};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What was understood can be said, and is understood again.
fn json<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let value: T = serde_json::from_slice(bytes).ok()?;
    let said = serde_json::to_vec(&value).expect("JSON");
    serde_json::from_slice(&said).ok()
}

pub fn text(bytes: &[u8]) {
    match json::<BrokerRequest>(bytes) {
        Some(BrokerRequest::Announce(server)) => drop(server.check()),
        _ => drop(json::<Directory>(bytes)),
    }
    let _ = (json::<ServerRequest>(bytes), json::<Attached>(bytes));
    let _ = (json::<RunRequest>(bytes), json::<Resume>(bytes), json::<RunOpened>(bytes), json::<Ask>(bytes));
    let _ = (json::<LineRequest>(bytes), json::<RemoteOpened>(bytes), json::<RemoteAttached>(bytes));
    let _ =
        (json::<RemoteResumed>(bytes), json::<Question>(bytes), json::<Act>(bytes), json::<Network>(bytes));
    if let Some(Declare::Parameter(parameter)) = json::<Declare>(bytes) {
        let value = serde_json::Value::from(1.5);
        let _ = (parameter.check(&value), parameter.of_its_type(&value));
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(signature) = Signature::parse(text) {
        let said = signature.to_string();
        assert_eq!(Signature::parse(&said).as_ref(), Ok(&signature), "{said}");
    }
    if let Ok(address) = text.parse::<Address>() {
        assert_eq!(address.to_string().parse().as_ref(), Ok(&address), "{address}");
    }
    let _ = (Name::new(text), Fingerprint::parse(text), text.parse::<serde_json::Value>());
}
