//! The table of routes: one line says where a request goes, what it needs, what it takes and what it answers. The
//! router, the permissions, the OpenAPI document and the tenancy test are all made from it.

use axum::{
    Router,
    handler::Handler,
    http::Method,
    middleware::from_fn_with_state,
    routing::{MethodFilter, MethodRouter, on},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use upliftmem_store::Permission;

use crate::{app::Shared, auth::authorize, idempotency::once, limits::in_time};

type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What a route answers when all is well.
pub(crate) enum Answers {
    Json(SchemaOf),
    /// Another media type.
    Other(&'static str),
}

/// One route.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// The operation's name in the OpenAPI document.
    pub(crate) id: &'static str,
    pub(crate) tag: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) permission: Permission,
    pub(crate) query: Option<SchemaOf>,
    pub(crate) body: Option<SchemaOf>,
    /// The media type of a body that is not JSON.
    pub(crate) raw_body: Option<&'static str>,
    pub(crate) answers: Answers,
    /// Whether the scope is named in the query string.
    pub(crate) scoped: bool,
    /// Whether it may take as long as it takes.
    pub(crate) unhurried: bool,
    /// Whether its answers are kept for requests with an idempotency key.
    pub(crate) kept: bool,
    handler: MethodRouter<Shared>,
}

impl Route {
    fn new<H, T>(method: Method, path: &'static str, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        let kept = method != Method::GET;
        let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
        Self {
            method,
            path,
            id,
            tag: "",
            summary: "",
            permission: Permission::Admin,
            query: None,
            body: None,
            raw_body: None,
            answers: Answers::Other("application/json"),
            scoped: false,
            unhurried: false,
            kept,
            handler: on(filter, handler),
        }
    }

    /// What it is for.
    pub(crate) const fn about(mut self, tag: &'static str, summary: &'static str) -> Self {
        self.tag = tag;
        self.summary = summary;
        self
    }

    /// What a key must allow.
    pub(crate) const fn needs(mut self, permission: Permission) -> Self {
        self.permission = permission;
        self
    }

    pub(crate) fn takes<B: JsonSchema>(mut self) -> Self {
        self.body = Some(SchemaGenerator::subschema_for::<B>);
        self
    }

    pub(crate) const fn takes_raw(mut self, media: &'static str) -> Self {
        self.raw_body = Some(media);
        self
    }

    pub(crate) fn asks<Q: JsonSchema>(mut self) -> Self {
        self.query = Some(|schemas| Q::json_schema(schemas));
        self
    }

    pub(crate) fn answers<A: JsonSchema>(mut self) -> Self {
        self.answers = Answers::Json(SchemaGenerator::subschema_for::<A>);
        self
    }

    pub(crate) const fn answers_raw(mut self, media: &'static str) -> Self {
        self.answers = Answers::Other(media);
        self
    }

    pub(crate) const fn scoped(mut self) -> Self {
        self.scoped = true;
        self
    }

    /// Its answers are not kept: they are secret, or endless, or repeating it does no harm.
    pub(crate) const fn not_kept(mut self) -> Self {
        self.kept = false;
        self
    }

    pub(crate) const fn unhurried(mut self) -> Self {
        self.unhurried = true;
        self
    }
}

macro_rules! methods {
    ($($name:ident $method:ident),+) => {$(
        pub(crate) fn $name<H, T>(path: &'static str, id: &'static str, handler: H) -> Route
        where
            H: Handler<T, Shared>,
            T: 'static,
        {
            Route::new(Method::$method, path, id, handler)
        }
    )+};
}

methods!(get GET, post POST, put PUT, patch PATCH, delete DELETE);

/// A router of these routes, each behind its permission.
pub(crate) fn router(app: &Shared, routes: Vec<Route>) -> Router<Shared> {
    let mut router = Router::new();
    for route in routes {
        let mut handler = route.handler;
        if route.kept {
            let state = (app.clone(), route.id);
            handler = handler.route_layer(from_fn_with_state(state, once));
        }
        if !route.unhurried {
            handler = handler.route_layer(from_fn_with_state(app.clone(), in_time));
        }
        let state = (app.clone(), route.permission);
        handler = handler.route_layer(from_fn_with_state(state, authorize));
        router = router.route(route.path, handler);
    }
    router
}
