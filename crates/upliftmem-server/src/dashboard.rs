//! The dashboard: files that `web/` builds and that are part of the program.

use axum::{
    Router,
    http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::get,
};
use sha2::{Digest, Sha256};

use crate::{app::Shared, routes::system::nowhere};

/// Nothing from elsewhere, nothing inline, and no text that becomes markup.
const POLICY: (HeaderName, &str) = (
    header::CONTENT_SECURITY_POLICY,
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
);

/// Paths of programs: whoever asks there gets an answer for programs.
const API: &[&str] = &["/v1/", "/v2/", "/v3/", "/mcp", "/docs", "/metrics"];

struct File {
    path: &'static str,
    media: &'static str,
    bytes: &'static [u8],
}

macro_rules! built {
    ($name:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/dist/", $name))
    };
}

static INDEX: File = File {
    path: "/",
    media: "text/html; charset=utf-8",
    bytes: built!("index.html"),
};

static FILES: &[&File] = &[
    &INDEX,
    &File {
        path: "/app.js",
        media: "text/javascript; charset=utf-8",
        bytes: built!("app.js"),
    },
    &File {
        path: "/app.css",
        media: "text/css; charset=utf-8",
        bytes: built!("app.css"),
    },
    &File {
        path: "/icon.svg",
        media: "image/svg+xml",
        bytes: built!("icon.svg"),
    },
];

impl File {
    /// Browsers keep a file and ask each time whether it is still the same: a new program is seen at once.
    fn answer(&self, asked: &HeaderMap) -> Response {
        let digest = Sha256::digest(self.bytes);
        let tag: String = digest[..12].iter().map(|byte| format!("{byte:02x}")).collect();
        let tag = format!("\"{tag}\"");
        let known = asked.get(header::IF_NONE_MATCH);
        let same = known
            .and_then(|known| known.to_str().ok())
            .is_some_and(|known| known.split(',').any(|one| one.trim() == tag));
        let headers = [
            (header::ETAG, tag.as_str()),
            (header::CACHE_CONTROL, "no-cache"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::CONTENT_TYPE, self.media),
            POLICY,
        ];
        if same {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        (headers, self.bytes).into_response()
    }
}

/// The files.
pub(crate) fn router() -> Router<Shared> {
    FILES.iter().fold(Router::new(), |router, file| {
        router.route(
            file.path,
            get(move |headers: HeaderMap| async move { file.answer(&headers) }),
        )
    })
}

/// What no route answers: a page of the dashboard for a person's browser, which knows its pages itself; else nothing.
pub(crate) async fn page_or_nowhere(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let wants_page = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"));
    let reads = method == Method::GET || method == Method::HEAD;
    if reads && wants_page && !API.iter().any(|path| uri.path().starts_with(path)) {
        return INDEX.answer(&headers);
    }
    nowhere().await
}
