//! The answers to plain requests: the page, login, and what scripts ask.
//!
//! Every address stands below the run's identity and the page uses relative addresses only, so
//! a proxy may put any prefix in front. GET never changes anything.

use std::sync::Arc;

use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{DefaultBodyLimit, Json, Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use forebay_types::watch::Act;
use forebay_types::{Code, Error};
use serde::Deserialize;
use serde_json::json;

use crate::guard::{self, Via};
use crate::rate::Bucket;
use crate::run::{Run, now_ms};
use crate::server::Shared;
use crate::token::Role;
use crate::{assets, ctl, data, say};

type House = State<Arc<Shared>>;
/// An answer that says no; boxed, since it is rare and large.
type Refusal = Box<Response>;

/// All addresses.
pub fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(front))
        .route("/{run}", get(towards_page))
        .route("/{run}/", get(page))
        .route("/{run}/assets/{file}", get(asset))
        .route("/{run}/login", post(login))
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
        next.run(request).await
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

/// The run and the role of who asks. `acts`: the request changes something or opens a socket,
/// so that a browser must show that it is our own page that asks.
fn enter(shared: &Shared, id: &str, headers: &HeaderMap, acts: bool) -> Result<(Arc<Run>, Role), Refusal> {
    let run = find(shared, id)?;
    let Some((role, via)) = guard::role(headers, &run) else {
        return Err(refuse(
            StatusCode::UNAUTHORIZED,
            "open the link that was printed when the run began: it carries the token",
        ));
    };
    if acts && !guard::origin_is_ours(headers, via == Via::Cookie) {
        return Err(refuse(StatusCode::FORBIDDEN, "the request comes from another site's page"));
    }
    Ok((run, role))
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
struct Login {
    token: String,
}

/// Swaps a token for a cookie that no script can read and no other site can send.
async fn login(
    State(shared): House,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(body): Json<Login>,
) -> Response {
    let result = is_ours(&headers).and_then(|()| find(&shared, &id)).and_then(|run| {
        let role = run.door.role(&body.token).ok_or_else(|| {
            refuse(
                StatusCode::UNAUTHORIZED,
                "that token is not one of this run; a new one is made at each start",
            )
        })?;
        let secret = run.door.login(role).map_err(|e| Box::new(failed(&e)))?;
        let cookie = format!("{}={}; HttpOnly; SameSite=Strict", guard::cookie_name(&run), secret.text());
        Ok(([(header::SET_COOKIE, cookie)], Json(json!({"role": role}))).into_response())
    });
    result.unwrap_or_else(|refusal| *refusal)
}

async fn me(State(shared): House, Path(id): Path<String>, headers: HeaderMap) -> Response {
    match enter(&shared, &id, &headers, false) {
        Ok((run, role)) => Json(json!({"role": role, "run": run.info(), "v": say::VERSION})).into_response(),
        Err(refusal) => *refusal,
    }
}

async fn state(State(shared): House, Path(id): Path<String>, headers: HeaderMap) -> Response {
    match enter(&shared, &id, &headers, false) {
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
    let result =
        is_ours(&headers).and_then(|()| enter(&shared, &id, &headers, true)).and_then(|(run, role)| {
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
    let (run, role) = match enter(&shared, &id, &headers, true) {
        Ok(entered) => entered,
        Err(refusal) => return *refusal,
    };
    let guest = match ctl::Guest::enter(run, role) {
        Ok(guest) => guest,
        Err(e) => return failed(&e),
    };
    let (stop, work) = (shared.stop.clone(), shared.work.clone());
    sized(upgrade).on_upgrade(move |socket| async move {
        ctl::serve(socket, guest, stop).await;
        drop(work);
    })
}

#[derive(Deserialize)]
struct Key {
    key: String,
}

async fn data_socket(
    State(shared): House,
    Path(id): Path<String>,
    Query(Key { key }): Query<Key>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let (run, _) = match enter(&shared, &id, &headers, true) {
        Ok(entered) => entered,
        Err(refusal) => return *refusal,
    };
    let Some(sight) = run.viewers.data(&key) else {
        return no(
            StatusCode::FORBIDDEN,
            "that key belongs to no open control socket, or its data socket is open already",
        );
    };
    let (stop, work) = (shared.stop.clone(), shared.work.clone());
    sized(upgrade).on_upgrade(move |socket| async move {
        data::serve(socket, run, sight, stop).await;
        drop(work);
    })
}

fn sized(upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
    upgrade.max_message_size(say::FROM_PAGE).max_frame_size(say::FROM_PAGE).write_buffer_size(0)
}
