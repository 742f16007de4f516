//! Who may knock: the names under which we may be addressed, where a request may come from,
//! and what every answer forbids the browser.
//!
//! A page of somebody else in the user's own browser can send requests to a loopback port. It
//! cannot choose the `Host` (so a name it made point to 127.0.0.1 is refused), it cannot hide
//! its `Origin`, and nothing that the browser sends by itself, as a cookie, lets anybody in.

use axum::http::{HeaderMap, HeaderValue, header};

use crate::run::Run;
use crate::token::Role;

/// Custom header of every POST: a foreign page cannot send it without asking first.
pub const OURS: &str = "x-forebay";

const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Whether we are addressed by a name that is ours.
pub fn host_is_ours(headers: &HeaderMap, more: &[String]) -> bool {
    let Some(host) = text(headers, header::HOST) else { return false };
    let name = match host.rfind(':') {
        Some(at) if host[at + 1..].bytes().all(|b| b.is_ascii_digit()) => &host[..at],
        _ => host,
    };
    NAMES.contains(&name) || more.iter().any(|m| m.eq_ignore_ascii_case(name))
}

/// Whether the page that asks is our own. Scripts send no origin; `required` refuses them.
pub fn origin_is_ours(headers: &HeaderMap, required: bool) -> bool {
    match (text(headers, header::ORIGIN), text(headers, header::HOST)) {
        (None, _) => !required && !headers.contains_key(header::ORIGIN),
        (Some(origin), Some(host)) => {
            origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) == Some(host)
        }
        _ => false,
    }
}

/// How somebody comes to a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approach {
    /// A script that has shown its token.
    Script(Role),
    /// A page of this origin; it proves who it is when the socket is open.
    Page(String),
}

/// The role of the token that a script shows, if it is one of this run.
pub fn script(headers: &HeaderMap, run: &Run) -> Option<Role> {
    run.door.role(text(headers, header::AUTHORIZATION)?.strip_prefix("Bearer ")?)
}

/// The origin of our own page.
pub fn origin(headers: &HeaderMap) -> Option<&str> {
    text(headers, header::ORIGIN).filter(|_| origin_is_ours(headers, true))
}

/// What every answer carries.
pub fn harden(headers: &mut HeaderMap) {
    let fixed = [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
             connect-src 'self'; worker-src 'none'; form-action 'none'; base-uri 'none'; \
             frame-ancestors 'self'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "SAMEORIGIN"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(n, v)| (n.clone(), HeaderValue::from_str(v).unwrap())).collect()
    }

    #[test]
    fn only_our_own_names_are_answered() {
        let ours = |host| host_is_ours(&headers(&[(header::HOST, host)]), &["n0417".into()]);
        for host in ["localhost:40713", "127.0.0.1:1", "[::1]:80", "localhost", "[::1]", "N0417:8080"] {
            assert!(ours(host), "{host}");
        }
        for host in
            ["evil.example:40713", "localhost.evil.example", "127.0.0.1.nip.io:80", "", ":80", "localhost:x"]
        {
            assert!(!ours(host), "{host}");
        }
        assert!(!host_is_ours(&HeaderMap::new(), &[]));
    }

    #[test]
    fn a_foreign_page_is_refused_whatever_it_is_called() {
        let ours = |origin: &str, required| {
            origin_is_ours(&headers(&[(header::HOST, "localhost:4"), (header::ORIGIN, origin)]), required)
        };
        assert!(ours("http://localhost:4", true) && ours("https://localhost:4", true));
        for origin in
            ["http://evil.example", "null", "http://localhost:5", "http://localhost", "", "localhost:4"]
        {
            assert!(!ours(origin, false), "{origin}");
        }
        let none = headers(&[(header::HOST, "localhost:4")]);
        assert!(origin_is_ours(&none, false) && !origin_is_ours(&none, true));
    }
}
