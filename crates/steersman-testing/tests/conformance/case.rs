use serde_json::Value;

/// The areas that cases are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Area {
    ListAndWatch,
    Crds,
    Deletion,
    Authorization,
    Apply,
    StrategicMerge,
    /// OpenAPI documents and Tables.
    Schemas,
    /// What every cluster has, and the bodies that Go clients send.
    BootstrapAndBodies,
    Rest,
}

impl Area {
    /// The areas that have a minimum of cases.
    pub(crate) const WITH_MINIMUM: [(Self, usize); 5] = [
        (Self::Apply, 60),
        (Self::StrategicMerge, 30),
        (Self::Schemas, 40),
        (Self::Authorization, 40),
        (Self::BootstrapAndBodies, 15),
    ];
}

/// A script about one rule of the API.
///
/// Texts may hold variables, which are filled in before they are sent:
///
/// | variable | stands for |
/// |---|---|
/// | `${id}` | a name that no other case has |
/// | `${ns}` | a namespace that no other case has; it exists |
/// | `${rv:a}`, `${uid:a}`, `${name:a}`, `${continue:a}` | that field of the metadata in the answer to step `a` |
/// | `${a:/json/pointer}` | that string of the answer |
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    pub(crate) steps: Vec<Step>,
}

/// What a case asks of its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// Garbage collection and the end of namespaces.
    Controllers,
    /// Old versions are forgotten soon.
    Compaction,
    /// RBAC decides on requests.
    Authorization,
}

/// One request, or one look at a watch.
pub(crate) struct Step {
    /// What later steps call its answer.
    pub(crate) name: Option<&'static str>,
    pub(crate) action: Action,
    pub(crate) expectations: Vec<Expectation>,
    /// Fields of the body that say nothing about the server's behaviour, as JSON pointers.
    pub(crate) ignored: Vec<&'static str>,
    /// The fields of the body that are compared, as JSON pointers. None stands for all.
    pub(crate) compared: Vec<String>,
    /// Whether the kinds that cases define are left out of the record.
    pub(crate) only_builtin: bool,
}

pub(crate) enum Action {
    /// Sends a request and records the answer.
    Send(Request),
    /// Sends a request again and again until the answer is as expected, and records that answer.
    Until(Request),
    /// Opens a watch. An answer that is no watch is recorded whole.
    Watch(Request),
    /// Takes events from a watch: a number of them, or all up to its end.
    Events(Events),
}

pub(crate) struct Events {
    /// The name of the watch.
    pub(crate) watch: &'static str,
    pub(crate) count: Option<usize>,
    /// Whether bookmarks count. A server may send one at any time, so a case that is not about them
    /// does not see them.
    pub(crate) bookmarks: bool,
}

pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
    /// Whether the body is converted to protobuf before it is sent.
    pub(crate) is_protobuf: bool,
    /// Headers of the answer that are compared beside those of every answer.
    pub(crate) compared: Vec<&'static str>,
    /// Whether warnings are left out of the record.
    pub(crate) ignores_warnings: bool,
}

impl Request {
    fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            headers: Vec::new(),
            body: String::new(),
            is_protobuf: false,
            compared: Vec::new(),
            ignores_warnings: false,
        }
    }
}

/// What a step must bring on a server that is known to be right.
#[derive(Debug)]
pub(crate) enum Expectation {
    /// This status code.
    Status(u16),
    /// This value at this JSON pointer into the body, or into the events.
    Value(&'static str, Value),
    /// Nothing at this JSON pointer.
    Absent(&'static str),
    /// A message with these words.
    Words(String),
    /// A warning header with these words.
    Warning(&'static str),
    /// These events: type and object name.
    Events(Vec<String>),
}

/// Begins a case.
pub(crate) fn case(name: &'static str) -> Case {
    Case { name, needs: Needs::Nothing, steps: Vec::new() }
}

impl Case {
    pub(crate) fn needs(mut self, needs: Needs) -> Self {
        self.needs = needs;
        self
    }

    pub(crate) fn get(self, path: impl Into<String>) -> Self {
        self.send("GET", path)
    }

    pub(crate) fn post(self, path: impl Into<String>, body: Value) -> Self {
        self.send("POST", path).json(body)
    }

    pub(crate) fn put(self, path: impl Into<String>, body: Value) -> Self {
        self.send("PUT", path).json(body)
    }

    pub(crate) fn delete(self, path: impl Into<String>) -> Self {
        self.send("DELETE", path)
    }

    /// A JSON merge patch.
    pub(crate) fn merge(self, path: impl Into<String>, body: Value) -> Self {
        let body = body.to_string();
        self.send("PATCH", path).text("application/merge-patch+json", body)
    }

    /// A JSON patch.
    pub(crate) fn json_patch(self, path: impl Into<String>, body: Value) -> Self {
        let body = body.to_string();
        self.send("PATCH", path).text("application/json-patch+json", body)
    }

    /// A strategic merge patch.
    pub(crate) fn strategic(self, path: impl Into<String>, body: Value) -> Self {
        let body = body.to_string();
        self.send("PATCH", path).text("application/strategic-merge-patch+json", body)
    }

    /// An apply by this manager.
    pub(crate) fn apply(self, path: impl Into<String>, manager: &str, body: Value) -> Self {
        let path = path.into();
        let separator = if path.contains('?') { '&' } else { '?' };
        let body = body.to_string();
        let path = format!("{path}{separator}fieldManager={manager}");
        self.send("PATCH", path).text("application/apply-patch+yaml", body)
    }

    pub(crate) fn send(self, method: &'static str, path: impl Into<String>) -> Self {
        self.step(Action::Send(Request::new(method, path)))
    }

    /// Asks until the answer is as the expectations that follow say.
    pub(crate) fn until(self, path: impl Into<String>) -> Self {
        self.step(Action::Until(Request::new("GET", path)))
    }

    /// Sends the last request until the answer is as the expectations that follow say.
    pub(crate) fn again_until(mut self) -> Self {
        let step = self.steps.pop().expect("a case begins with a step");
        let Action::Send(request) = step.action else { panic!("the last step is not a request") };
        self.step(Action::Until(request))
    }

    /// Opens a watch that later steps call `name`.
    pub(crate) fn watch(self, name: &'static str, path: impl Into<String>) -> Self {
        self.step(Action::Watch(Request::new("GET", path))).named(name)
    }

    /// Takes as many events from the watch `name` as are listed, like `ADDED one, MODIFIED two`.
    pub(crate) fn events(self, name: &'static str, events: &str) -> Self {
        let expected = split(events);
        let events = Events { watch: name, count: Some(expected.len()), bookmarks: events.contains("BOOKMARK") };
        self.step(Action::Events(events)).expecting(Expectation::Events(expected))
    }

    /// Takes all events from the watch `name` until it ends.
    pub(crate) fn end(self, name: &'static str, events: &str) -> Self {
        let expected = split(events);
        let events = Events { watch: name, count: None, bookmarks: events.contains("BOOKMARK") };
        self.step(Action::Events(events)).expecting(Expectation::Events(expected))
    }

    /// The body of the last request.
    pub(crate) fn json(self, body: Value) -> Self {
        let body = body.to_string();
        self.text("application/json", body)
    }

    /// The body of the last request, of any type.
    pub(crate) fn text(mut self, content_type: &str, body: impl Into<String>) -> Self {
        self.request().body = body.into();
        self.header("content-type", content_type)
    }

    /// The body of the last request, sent as protobuf.
    pub(crate) fn protobuf(mut self, body: Value) -> Self {
        self.request().is_protobuf = true;
        self.text("application/vnd.kubernetes.protobuf", body.to_string())
    }

    /// A header of the last request. An empty one is not sent.
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        let headers = &mut self.request().headers;
        headers.retain(|(other, _)| *other != name);
        headers.push((name, value.into()));
        self
    }

    /// What later steps call the answer.
    pub(crate) fn named(mut self, name: &'static str) -> Self {
        self.last().name = Some(name);
        self
    }

    /// Leaves this field of the body out of the record.
    pub(crate) fn ignore(mut self, pointer: &'static str) -> Self {
        self.last().ignored.push(pointer);
        self
    }

    /// Compares this field of the body, and no others that are not named so.
    pub(crate) fn only(mut self, pointer: impl Into<String>) -> Self {
        self.last().compared.push(pointer.into());
        self
    }

    /// Leaves out of the record what cases define: other cases do so at the same time.
    pub(crate) fn only_builtin(mut self) -> Self {
        self.last().only_builtin = true;
        self
    }

    /// Compares these headers of the answer too.
    pub(crate) fn comparing(mut self, headers: &[&'static str]) -> Self {
        self.request().compared.extend(headers);
        self
    }

    /// Leaves out warnings: those about the contents of Pods do not exist everywhere.
    pub(crate) fn without_warnings(mut self) -> Self {
        self.request().ignores_warnings = true;
        self
    }

    pub(crate) fn expect(self, status: u16) -> Self {
        self.expecting(Expectation::Status(status))
    }

    pub(crate) fn see(self, pointer: &'static str, value: impl Into<Value>) -> Self {
        self.expecting(Expectation::Value(pointer, value.into()))
    }

    pub(crate) fn absent(self, pointer: &'static str) -> Self {
        self.expecting(Expectation::Absent(pointer))
    }

    pub(crate) fn message_contains(self, words: impl Into<String>) -> Self {
        self.expecting(Expectation::Words(words.into()))
    }

    pub(crate) fn warns(self, words: &'static str) -> Self {
        self.expecting(Expectation::Warning(words))
    }

    /// Whether some text of the case holds `variable`.
    pub(crate) fn mentions(&self, variable: &str) -> bool {
        self.requests().any(|request| request.path.contains(variable) || request.body.contains(variable))
    }

    pub(crate) fn requests(&self) -> impl Iterator<Item = &Request> {
        self.steps.iter().filter_map(|step| match &step.action {
            Action::Send(request) | Action::Until(request) | Action::Watch(request) => Some(request),
            Action::Events(_) => None,
        })
    }

    fn step(mut self, action: Action) -> Self {
        self.steps.push(Step {
            name: None,
            action,
            expectations: Vec::new(),
            ignored: Vec::new(),
            compared: Vec::new(),
            only_builtin: false,
        });
        self
    }

    fn expecting(mut self, expectation: Expectation) -> Self {
        self.last().expectations.push(expectation);
        self
    }

    fn last(&mut self) -> &mut Step {
        self.steps.last_mut().expect("a case begins with a step")
    }

    fn request(&mut self) -> &mut Request {
        match &mut self.last().action {
            Action::Send(request) | Action::Until(request) | Action::Watch(request) => request,
            Action::Events(_) => panic!("the last step is not a request"),
        }
    }
}

impl Step {
    /// How a report calls the step.
    pub(crate) fn title(&self) -> String {
        match &self.action {
            Action::Send(request) => format!("{} {}", request.method, request.path),
            Action::Until(request) => format!("until {} {}", request.method, request.path),
            Action::Watch(request) => format!("watch {}", request.path),
            Action::Events(Events { watch, count: Some(count), .. }) => format!("{count} events of {watch}"),
            Action::Events(Events { watch, .. }) => format!("all events of {watch}"),
        }
    }
}

fn split(events: &str) -> Vec<String> {
    events.split(',').map(str::trim).filter(|event| !event.is_empty()).map(str::to_owned).collect()
}
