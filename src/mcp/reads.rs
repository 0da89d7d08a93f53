//! Resources and prompts: what a person reads of a server, without a model.

use std::sync::Arc;

use rmcp::model::{
    ClientRequest, ErrorCode, GetPromptRequest, GetPromptRequestParams, JsonObject,
    ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest, PaginatedRequestParams,
    ReadResourceRequest, ReadResourceRequestParams, ServerResult,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Pool;
use super::content;
use super::failure::Fault;
use super::live::{Broken, Live, MAX_ROUNDS, Time, page_at};
use super::server::Connected;
use super::types::{Prompt, Resource};
use crate::error::{Error, Kind, Result};

/// The most entries of a list, and the most pages.
const MAX: usize = 10_000;
const MAX_PAGES: usize = 100;

impl Pool {
    /// The resources and templates of a server, or of all.
    ///
    /// # Errors
    /// There is no such server, or it fails.
    pub async fn resources(
        &self,
        alias: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<Vec<Resource>> {
        let mut found = Vec::new();
        for (server, live) in self.asked(alias)? {
            let session = Reader::new(&server, &live, cancel);
            let one = |uri, name, description, mime, template| Resource {
                server: server.server.alias.clone(),
                uri,
                name,
                description,
                mime,
                template,
            };
            let pages = session.pages(|params| {
                ClientRequest::ListResourcesRequest(ListResourcesRequest {
                    params,
                    ..ListResourcesRequest::default()
                })
            });
            for page in pages.await? {
                if let ServerResult::ListResourcesResult(page) = page {
                    found.extend(
                        page.resources
                            .into_iter()
                            .map(|r| one(r.uri, r.name, r.description, r.mime_type, false)),
                    );
                }
            }
            let pages = session.pages(|params| {
                ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest {
                    params,
                    ..ListResourceTemplatesRequest::default()
                })
            });
            for page in pages.await? {
                if let ServerResult::ListResourceTemplatesResult(page) = page {
                    found.extend(
                        page.resource_templates
                            .into_iter()
                            .map(|r| one(r.uri_template, r.name, r.description, r.mime_type, true)),
                    );
                }
            }
        }
        found.truncate(MAX);
        Ok(found)
    }

    /// The text of a resource: `alias` and URI.
    ///
    /// # Errors
    /// There is none, or it is no text.
    pub async fn resource(
        &self,
        alias: &str,
        uri: &str,
        max_bytes: usize,
        cancel: &CancellationToken,
    ) -> Result<String> {
        let (server, live) = self.ready(alias)?;
        let session = Reader::new(&server, &live, cancel);
        let mut params = ReadResourceRequestParams::new(uri);
        let result = session
            .rounds(|input| {
                (params.input_responses, params.request_state) = input;
                ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params.clone()))
            })
            .await?;
        match result {
            ServerResult::ReadResourceResult(result) => content::resource(&result, max_bytes),
            _ => Err(session.error(Fault::answer("it answered something else").into())),
        }
    }

    /// The prompts of a server, or of all.
    ///
    /// # Errors
    /// There is no such server, or it fails.
    pub async fn prompts(
        &self,
        alias: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<Vec<Prompt>> {
        let mut found = Vec::new();
        for (server, live) in self.asked(alias)? {
            let session = Reader::new(&server, &live, cancel);
            let pages = session.pages(|params| {
                ClientRequest::ListPromptsRequest(ListPromptsRequest {
                    params,
                    ..ListPromptsRequest::default()
                })
            });
            for page in pages.await? {
                if let ServerResult::ListPromptsResult(page) = page {
                    found.extend(page.prompts.into_iter().map(|p| {
                        Prompt {
                            name: format!("{}.{}", server.server.alias, p.name),
                            description: p.description,
                            arguments: p
                                .arguments
                                .unwrap_or_default()
                                .into_iter()
                                .map(|a| (a.name, a.required == Some(true)))
                                .collect(),
                        }
                    }));
                }
            }
        }
        found.truncate(MAX);
        Ok(found)
    }

    /// The text of a prompt: `alias`, its name at the server, its arguments.
    ///
    /// # Errors
    /// There is none, an argument is missing, or the server fails.
    pub async fn prompt(
        &self,
        alias: &str,
        name: &str,
        arguments: &[(String, String)],
        cancel: &CancellationToken,
    ) -> Result<String> {
        let (server, live) = self.ready(alias)?;
        let session = Reader::new(&server, &live, cancel);
        let mut params = GetPromptRequestParams::new(name);
        if !arguments.is_empty() {
            let arguments = arguments.iter().map(|(k, v)| (k.clone(), v.clone().into()));
            params.arguments = Some(arguments.collect::<JsonObject>());
        }
        let result = session
            .rounds(|input| {
                (params.input_responses, params.request_state) = input;
                ClientRequest::GetPromptRequest(GetPromptRequest::new(params.clone()))
            })
            .await?;
        match result {
            ServerResult::GetPromptResult(result) => Ok(content::prompt(&result)),
            _ => Err(session.error(Fault::answer("it answered something else").into())),
        }
    }

    /// The server of that alias, which has to be ready; or all that are.
    fn asked(&self, alias: Option<&str>) -> Result<Vec<(Arc<Connected>, Arc<Live>)>> {
        match alias {
            Some(alias) => Ok(vec![self.ready(alias)?]),
            None => Ok(self
                .all()
                .into_iter()
                .filter_map(|server| Some((server.clone(), server.live().ok()?)))
                .collect()),
        }
    }

    fn ready(&self, alias: &str) -> Result<(Arc<Connected>, Arc<Live>)> {
        let server = self.find(alias)?;
        match server.live() {
            Ok(live) => Ok((server, live)),
            Err(why) => Err(Error::runtime(format!("mcp: {alias}: {why}"))),
        }
    }
}

/// What a server asked before it goes on, answered.
type Input = (Option<rmcp::model::InputResponses>, Option<String>);

/// Requests of one server, for a person.
struct Reader<'a> {
    server: &'a Connected,
    live: &'a Live,
    cancel: &'a CancellationToken,
}

impl<'a> Reader<'a> {
    fn new(server: &'a Connected, live: &'a Live, cancel: &'a CancellationToken) -> Reader<'a> {
        Reader {
            server,
            live,
            cancel,
        }
    }

    fn error(&self, broken: Broken) -> Error {
        let server = &self.server.server;
        match broken {
            Broken::Interrupted => Error::new(Kind::Interrupted, "interrupted"),
            Broken::Fault(fault) => {
                Error::runtime(format!("mcp: {}: {}", server.alias, fault.hinted(server)))
            }
        }
    }

    /// All pages of a list. A server that has no such thing has none of it.
    async fn pages(
        &self,
        request: impl Fn(Option<PaginatedRequestParams>) -> ClientRequest,
    ) -> Result<Vec<ServerResult>> {
        let (mut pages, mut cursor) = (Vec::new(), None);
        // Nobody is there to be asked.
        let (events, _) = mpsc::channel(1);
        let mut ticket = self.live.handler.begin(&events);
        let mut time = Time::new(self.server.server.timeout);
        for _ in 0..MAX_PAGES {
            let params = page_at(&cursor);
            let sent = self
                .live
                .request(request(params), &mut ticket, &mut time, self.cancel);
            let page = match sent.await {
                Ok(page) => page,
                Err(Broken::Fault(f)) if f.code == Some(ErrorCode::METHOD_NOT_FOUND.0) => break,
                Err(broken) => return Err(self.error(broken)),
            };
            let next = match &page {
                ServerResult::ListResourcesResult(p) => p.next_cursor.clone(),
                ServerResult::ListResourceTemplatesResult(p) => p.next_cursor.clone(),
                ServerResult::ListPromptsResult(p) => p.next_cursor.clone(),
                _ => None,
            };
            pages.push(page);
            if next.is_none() || next == cursor {
                break;
            }
            cursor = next;
        }
        Ok(pages)
    }

    /// One request, sent again with what the server asked for.
    async fn rounds(
        &self,
        mut request: impl FnMut(Input) -> ClientRequest,
    ) -> Result<ServerResult> {
        let (events, _) = mpsc::channel(1);
        let mut ticket = self.live.handler.begin(&events);
        let mut time = Time::new(self.server.server.timeout);
        let mut input = (None, None);
        for _ in 0..MAX_ROUNDS {
            let sent = self
                .live
                .request(request(input), &mut ticket, &mut time, self.cancel);
            match sent.await.map_err(|b| self.error(b))? {
                ServerResult::InputRequiredResult(asked) => {
                    let answered = self.live.input(asked, &ticket, self.cancel);
                    input = answered.await.map_err(|b| self.error(b))?;
                }
                result => return Ok(result),
            }
        }
        Err(self.error(Fault::answer("it asked back too often").into()))
    }
}
