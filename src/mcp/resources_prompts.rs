//! Resources and prompts, which a person reads directly, without a model.

use std::sync::Arc;

use rmcp::model::{
    ClientRequest, ErrorCode, GetPromptRequest, GetPromptRequestParams, JsonObject,
    ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest, PaginatedRequestParams,
    ReadResourceRequest, ReadResourceRequestParams, ServerResult,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::ServerPool;
use super::connection::{MAX_INPUT_ROUNDS, ReadyServer, RequestError, TimeBudget, page_params};
use super::content;
use super::failure::ServerFault;
use super::server::PooledServer;
use super::types::{McpPrompt, McpResource};
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of entries of a list, and of its pages.
const MAX_ENTRIES: usize = 10_000;
const MAX_PAGES: usize = 100;

impl ServerPool {
    /// Lists the resources and resource templates of the server `alias`, or of all ready servers (`resources/list`,
    /// `resources/templates/list`).
    ///
    /// # Errors
    /// The server does not exist, is not ready, or fails.
    pub async fn resources(
        &self,
        alias: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<Vec<McpResource>> {
        let mut found = Vec::new();
        for (server, ready) in self.selected_servers(alias)? {
            let reader = ServerReader::new(&server, &ready, cancel);
            let resource = |uri, name, description, mime, template| McpResource {
                server: server.server.alias.clone(),
                uri,
                name,
                description,
                mime,
                template,
            };
            let pages = reader.fetch_pages(|params| {
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
                            .map(|r| resource(r.uri, r.name, r.description, r.mime_type, false)),
                    );
                }
            }
            let pages = reader.fetch_pages(|params| {
                ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest {
                    params,
                    ..ListResourceTemplatesRequest::default()
                })
            });
            for page in pages.await? {
                if let ServerResult::ListResourceTemplatesResult(page) = page {
                    found.extend(page.resource_templates.into_iter().map(|r| {
                        resource(r.uri_template, r.name, r.description, r.mime_type, true)
                    }));
                }
            }
        }
        found.truncate(MAX_ENTRIES);
        Ok(found)
    }

    /// Reads the text of the resource `uri` of the server `alias`, at most `max_bytes` of it (`resources/read`).
    ///
    /// # Errors
    /// The server or the resource does not exist, or the resource is not text.
    pub async fn resource(
        &self,
        alias: &str,
        uri: &str,
        max_bytes: usize,
        cancel: &CancellationToken,
    ) -> Result<String> {
        let (server, ready) = self.ready_server(alias)?;
        let reader = ServerReader::new(&server, &ready, cancel);
        let mut params = ReadResourceRequestParams::new(uri);
        let result = reader
            .send_with_input(|input| {
                (params.input_responses, params.request_state) = input;
                ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params.clone()))
            })
            .await?;
        match result {
            ServerResult::ReadResourceResult(result) => content::resource_text(&result, max_bytes),
            _ => {
                Err(reader.error(ServerFault::bad_response("it sent an unexpected answer").into()))
            }
        }
    }

    /// Lists the prompts of the server `alias`, or of all ready servers (`prompts/list`).
    ///
    /// # Errors
    /// The server does not exist, is not ready, or fails.
    pub async fn prompts(
        &self,
        alias: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<Vec<McpPrompt>> {
        let mut found = Vec::new();
        for (server, ready) in self.selected_servers(alias)? {
            let reader = ServerReader::new(&server, &ready, cancel);
            let pages = reader.fetch_pages(|params| {
                ClientRequest::ListPromptsRequest(ListPromptsRequest {
                    params,
                    ..ListPromptsRequest::default()
                })
            });
            for page in pages.await? {
                if let ServerResult::ListPromptsResult(page) = page {
                    found.extend(page.prompts.into_iter().map(|p| {
                        McpPrompt {
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
        found.truncate(MAX_ENTRIES);
        Ok(found)
    }

    /// Returns the text of the prompt `name` of the server `alias` (`prompts/get`). `arguments` are names and values.
    ///
    /// # Errors
    /// The server or the prompt does not exist, an argument is missing, or the server fails.
    pub async fn prompt(
        &self,
        alias: &str,
        name: &str,
        arguments: &[(String, String)],
        cancel: &CancellationToken,
    ) -> Result<String> {
        let (server, ready) = self.ready_server(alias)?;
        let reader = ServerReader::new(&server, &ready, cancel);
        let mut params = GetPromptRequestParams::new(name);
        if !arguments.is_empty() {
            let arguments = arguments.iter().map(|(k, v)| (k.clone(), v.clone().into()));
            params.arguments = Some(arguments.collect::<JsonObject>());
        }
        let result = reader
            .send_with_input(|input| {
                (params.input_responses, params.request_state) = input;
                ClientRequest::GetPromptRequest(GetPromptRequest::new(params.clone()))
            })
            .await?;
        match result {
            ServerResult::GetPromptResult(result) => Ok(content::prompt_text(&result)),
            _ => {
                Err(reader.error(ServerFault::bad_response("it sent an unexpected answer").into()))
            }
        }
    }

    /// The server `alias`, which must be ready, or all ready servers.
    fn selected_servers(
        &self,
        alias: Option<&str>,
    ) -> Result<Vec<(Arc<PooledServer>, Arc<ReadyServer>)>> {
        match alias {
            Some(alias) => Ok(vec![self.ready_server(alias)?]),
            None => Ok(self
                .all()
                .into_iter()
                .filter_map(|server| Some((server.clone(), server.ready_server().ok()?)))
                .collect()),
        }
    }

    fn ready_server(&self, alias: &str) -> Result<(Arc<PooledServer>, Arc<ReadyServer>)> {
        let server = self.find(alias)?;
        match server.ready_server() {
            Ok(ready) => Ok((server, ready)),
            Err(reason) => Err(Error::runtime(format!("mcp: {alias}: {reason}"))),
        }
    }
}

/// Answers to a server's `inputRequests`, and the `requestState` to send back with them.
type InputAnswers = (Option<rmcp::model::InputResponses>, Option<String>);

/// Sends requests to one server on behalf of a person.
struct ServerReader<'a> {
    server: &'a PooledServer,
    ready: &'a ReadyServer,
    cancel: &'a CancellationToken,
}

impl<'a> ServerReader<'a> {
    fn new(
        server: &'a PooledServer,
        ready: &'a ReadyServer,
        cancel: &'a CancellationToken,
    ) -> ServerReader<'a> {
        ServerReader {
            server,
            ready,
            cancel,
        }
    }

    fn error(&self, error: RequestError) -> Error {
        let server = &self.server.server;
        match error {
            RequestError::Interrupted => Error::new(ErrorKind::Interrupted, "interrupted"),
            RequestError::Failed(fault) => Error::runtime(format!(
                "mcp: {}: {}",
                server.alias,
                fault.message_with_hint(server)
            )),
        }
    }

    /// Fetches all pages of a list. A server without this method has an empty list.
    async fn fetch_pages(
        &self,
        request: impl Fn(Option<PaginatedRequestParams>) -> ClientRequest,
    ) -> Result<Vec<ServerResult>> {
        let (mut pages, mut cursor) = (Vec::new(), None);
        // Questions are declined: this request has no dialogue with the person.
        let (events, _) = mpsc::channel(1);
        let mut registration = self.ready.handler.register_call(&events);
        let mut time = TimeBudget::new(self.server.server.timeout);
        for _ in 0..MAX_PAGES {
            let params = page_params(&cursor);
            let sent =
                self.ready
                    .request(request(params), &mut registration, &mut time, self.cancel);
            let page = match sent.await {
                Ok(page) => page,
                Err(RequestError::Failed(f)) if f.code == Some(ErrorCode::METHOD_NOT_FOUND.0) => {
                    break;
                }
                Err(error) => return Err(self.error(error)),
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

    /// Sends a request, again if the server asks for input first.
    async fn send_with_input(
        &self,
        mut request: impl FnMut(InputAnswers) -> ClientRequest,
    ) -> Result<ServerResult> {
        let (events, _) = mpsc::channel(1);
        let mut registration = self.ready.handler.register_call(&events);
        let mut time = TimeBudget::new(self.server.server.timeout);
        let mut input = (None, None);
        for _ in 0..MAX_INPUT_ROUNDS {
            let sent =
                self.ready
                    .request(request(input), &mut registration, &mut time, self.cancel);
            match sent.await.map_err(|b| self.error(b))? {
                ServerResult::InputRequiredResult(required) => {
                    let answered =
                        self.ready
                            .answer_input_requests(required, &registration, self.cancel);
                    input = answered.await.map_err(|b| self.error(b))?;
                }
                result => return Ok(result),
            }
        }
        Err(self.error(ServerFault::bad_response("it asked for input too often").into()))
    }
}
