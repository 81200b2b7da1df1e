//! Bodies and query strings, refused in our words.

use axum::{
    Json,
    extract::{
        FromRequest, FromRequestParts, Path, Query, Request,
        rejection::{JsonRejection, QueryRejection},
    },
    http::request::Parts,
    response::{IntoResponse, Response},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    app::Shared,
    error::{ApiError, Code, Result},
};

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned + Send> FromRequest<Shared> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Shared) -> Result<Self> {
        match Json::<T>::from_request(request, app).await {
            Ok(Json(body)) => Ok(Self(body)),
            Err(rejection) => Err(refused(&rejection)),
        }
    }
}

fn refused(rejection: &JsonRejection) -> ApiError {
    let code = match rejection {
        JsonRejection::JsonDataError(_) => Code::InvalidRequest,
        JsonRejection::MissingJsonContentType(_) => Code::UnsupportedMediaType,
        JsonRejection::BytesRejection(_)
            if rejection.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE =>
        {
            Code::BodyTooLarge
        }
        _ => Code::InvalidJson,
    };
    ApiError::new(code, rejection.body_text())
}

/// A query string.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for Asked<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &Shared) -> Result<Self> {
        Query::<T>::try_from_uri(&parts.uri)
            .map(|Query(query)| Self(query))
            .map_err(|error: QueryRejection| ApiError::invalid("query", error.body_text()))
    }
}

/// The one part of a path that is not fixed.
pub(crate) struct At(pub(crate) String);

impl FromRequestParts<Shared> for At {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self> {
        Path::<String>::from_request_parts(parts, app)
            .await
            .map(|Path(part)| Self(part))
            .map_err(|error| ApiError::invalid("path", error.body_text()))
    }
}

/// A JSON answer.
pub(crate) struct Answer<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        Json(self.0).into_response()
    }
}
