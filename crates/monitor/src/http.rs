//! The answers to plain requests: the page, its session, and what scripts ask.
//!
//! Every address stands below the run's identity and the page uses relative addresses only, so
//! a proxy may put any prefix in front. GET never changes anything.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{DefaultBodyLimit, Json, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use forebay_types::watch::Act;
use forebay_types::{Code, Error};
use serde::Deserialize;
use serde_json::json;

use crate::guard::{self, Approach};
use crate::rate::Bucket;
use crate::run::{Run, now_ms};
use crate::server::Shared;
use crate::token::Role;
use crate::{assets, ctl, data, say, secret};

type House = State<Arc<Shared>>;
/// An answer that says no; boxed, since it is rare and large.
type Refusal = Box<Response>;

/// How long a request may take to be read and answered.
const REQUEST: Duration = Duration::from_secs(10);

/// All addresses.
pub fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(front))
        .route("/{run}", get(towards_page))
        .route("/{run}/", get(page))
        .route("/{run}/assets/{file}", get(asset))
        .route("/{run}/auth", post(auth))
        .route("/{run}/me", get(me))
        .route("/{run}/state", get(state))
        .route("/{run}/act", post(act))
        .route("/{run}/ws/ctl", get(control_socket))
        .route("/{run}/ws/data", get(data_socket))
        .layer(DefaultBodyLimit::max(say::FROM_PAGE))
        .layer(middleware::from_fn_with_state(shared.clone(), guarded))
        .with_state(shared)
}

/// Host first, then whatever the request wants, then the headers of every answer.
async fn guarded(State(shared): House, request: Request, next: Next) -> Response {
    let mut answer = if guard::host_is_ours(request.headers(), &shared.host_names) {
        // A body may come as slowly as headers may not.
        tokio::time::timeout(REQUEST, next.run(request))
            .await
            .unwrap_or_else(|_| no(StatusCode::REQUEST_TIMEOUT, "the request took too long to come"))
    } else {
        no(
            StatusCode::FORBIDDEN,
            "this monitor is not addressed by that host name; use localhost or --host-name",
        )
    };
    guard::harden(answer.headers_mut());
    answer
}

fn no(status: StatusCode, text: &str) -> Response {
    (status, text.to_owned()).into_response()
}

fn refuse(status: StatusCode, text: &str) -> Refusal {
    Box::new(no(status, text))
}

fn failed(error: &Error) -> Response {
    let status = match error.code() {
        Code::Refused => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Closed | Code::Conflict => StatusCode::CONFLICT,
        Code::Full => StatusCode::SERVICE_UNAVAILABLE,
        Code::BadArgument => StatusCode::BAD_REQUEST,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, Json(json!({"code": error.code().name(), "text": error.text()}))).into_response()
}

fn find(shared: &Shared, id: &str) -> Result<Arc<Run>, Refusal> {
    shared
        .hub
        .get(id)
        .ok_or_else(|| refuse(StatusCode::NOT_FOUND, "no such run is shown here; it may have ended"))
}

/// The run, and the role of the script that asks.
fn enter(shared: &Shared, id: &str, headers: &HeaderMap) -> Result<(Arc<Run>, Role), Refusal> {
    let run = find(shared, id)?;
    let role = guard::script(headers, &run).ok_or_else(|| {
        refuse(
            StatusCode::UNAUTHORIZED,
            "a script shows a token in the header Authorization: Bearer; `forebay monitor RUN --token` prints one",
        )
    })?;
    Ok((run, role))
}

/// The run, and how somebody comes to a socket of it. A browser must show that it is our own page that asks.
fn approach(shared: &Shared, id: &str, headers: &HeaderMap) -> Result<(Arc<Run>, Approach), Refusal> {
    if headers.contains_key(header::AUTHORIZATION) {
        let (run, role) = enter(shared, id, headers)?;
        if guard::origin_is_ours(headers, false) {
            return Ok((run, Approach::Script(role)));
        }
    } else if let Some(origin) = guard::origin(headers) {
        return Ok((find(shared, id)?, Approach::Page(origin.to_owned())));
    }
    Err(refuse(StatusCode::FORBIDDEN, "the request comes from another site's page"))
}

/// A POST of our own page or of a script.
fn is_ours(headers: &HeaderMap) -> Result<(), Refusal> {
    if headers.contains_key(guard::OURS) && guard::origin_is_ours(headers, false) {
        return Ok(());
    }
    Err(refuse(
        StatusCode::FORBIDDEN,
        "a POST needs the header X-Forebay: 1 and, from a browser, our own origin",
    ))
}

async fn front() -> Response {
    no(
        StatusCode::NOT_FOUND,
        "This is the monitor of Forebay. Open the link that was printed when the run began.\n",
    )
}

async fn towards_page(State(shared): House, Path(id): Path<String>) -> Response {
    match find(&shared, &id) {
        // Relative, and one level: the prefix of a proxy stays.
        Ok(_) => (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, format!("{id}/"))]).into_response(),
        Err(refusal) => *refusal,
    }
}

async fn page(State(shared): House, Path(id): Path<String>) -> Response {
    match find(&shared, &id) {
        Ok(_) => file(&HeaderMap::new(), &assets::PAGE),
        Err(refusal) => *refusal,
    }
}

async fn asset(headers: HeaderMap, Path((_run, name)): Path<(String, String)>) -> Response {
    match assets::find(&name) {
        Some(asset) => file(&headers, asset),
        None => no(StatusCode::NOT_FOUND, "no such file"),
    }
}

fn file(headers: &HeaderMap, asset: &assets::Asset) -> Response {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).unwrap_or("");
    let gzip = asset.gzip.filter(|_| accepted.split(',').any(|e| e.trim().starts_with("gzip")));
    let mut answer = gzip.unwrap_or(asset.plain).into_response();
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.mime));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if gzip.is_some() {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    answer
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Auth {
    /// First letters of the code.
    id: String,
    nc: String,
    #[serde(default)]
    proof: Option<Proof>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Proof {
    ns: String,
    mac: String,
}

/// Gives a session to a page that knows the code of a link. First we prove that we know it.
async fn auth(
    State(shared): House,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(body): Json<Auth>,
) -> Response {
    let result = is_ours(&headers).and_then(|()| find(&shared, &id)).and_then(|run| {
        let origin = guard::origin(&headers)
            .ok_or_else(|| refuse(StatusCode::FORBIDDEN, "only a page begins a session; a script shows a token"))?;
        let answer = match &body.proof {
            _ if !secret::is_nonce(&body.nc) => Ok(None),
            None => run.door.challenge(&body.id, &body.nc, origin).map(|made| {
                made.map(|(ns, mac)| json!({"ns": ns, "mac": mac}))
            }),
            Some(Proof { ns, mac }) => run.door.answer(&body.id, &body.nc, ns, mac, origin).map(|made| {
                made.map(|s| json!({"sid": s.sid, "wrapped": s.wrapped, "role": s.role}))
            }),
        };
        let answer = answer.map_err(|e| Box::new(failed(&e)))?;
        answer.map(|a| Json(a).into_response()).ok_or_else(|| {
            refuse(
                StatusCode::UNAUTHORIZED,
                "that link was used already, is too old, or is of another run; `forebay monitor RUN` prints a new one",
            )
        })
    });
    result.unwrap_or_else(|refusal| *refusal)
}

async fn me(State(shared): House, Path(id): Path<String>, headers: HeaderMap) -> Response {
    match enter(&shared, &id, &headers) {
        Ok((run, role)) => Json(json!({"role": role, "run": run.info(), "v": say::VERSION})).into_response(),
        Err(refusal) => *refusal,
    }
}

async fn state(State(shared): House, Path(id): Path<String>, headers: HeaderMap) -> Response {
    match enter(&shared, &id, &headers) {
        Ok((run, _)) => Json(run.words()).into_response(),
        Err(refusal) => *refusal,
    }
}

/// An act asked for by a script.
async fn act(
    State(shared): House,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(act): Json<Act>,
) -> Response {
    let result = is_ours(&headers).and_then(|()| enter(&shared, &id, &headers)).and_then(|(run, role)| {
        let mut bucket = run.scripts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !bucket.get_or_insert_with(|| Bucket::new(now_ms())).take(now_ms()) {
            return Err(refuse(StatusCode::TOO_MANY_REQUESTS, "more than ten acts a second; slow down"));
        }
        drop(bucket);
        run.act(&format!("{} by script", role.word()), role, &act).map_err(|e| Box::new(failed(&e)))
    });
    match result {
        Ok(number) => Json(json!({"id": number})).into_response(),
        Err(refusal) => *refusal,
    }
}

async fn control_socket(
    State(shared): House,
    Path(id): Path<String>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let (run, entry) = match approach(&shared, &id, &headers) {
        Ok(entered) => entered,
        Err(refusal) => return *refusal,
    };
    let (stop, work) = (shared.stop.clone(), shared.work.clone());
    sized(upgrade).on_upgrade(move |socket| async move {
        ctl::serve(socket, run, entry, stop).await;
        drop(work);
    })
}

async fn data_socket(
    State(shared): House,
    Path(id): Path<String>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let (run, entry) = match approach(&shared, &id, &headers) {
        Ok(entered) => entered,
        Err(refusal) => return *refusal,
    };
    let (stop, work) = (shared.stop.clone(), shared.work.clone());
    sized(upgrade).on_upgrade(move |socket| async move {
        data::serve(socket, run, entry, stop).await;
        drop(work);
    })
}

fn sized(upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
    upgrade.max_message_size(say::FROM_PAGE).max_frame_size(say::FROM_PAGE).write_buffer_size(0)
}
