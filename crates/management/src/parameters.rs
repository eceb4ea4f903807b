//! Runtime parameters: those of RabbitMQ's that have a meaning here, limits and the operator's policies; macros of the
//! filter language; and parameters of the whole node, which mean something to those who set them alone.

use crate::body::Body;
use crate::call::Call;
use crate::node::Node;
use crate::report::REMARKS;
use crate::request::Method;
use crate::response::{Answer, Response};
use crate::{kept, limits, macros, policies, trail};
use broker::catalog::{Op, PolicyKind, VhostId, VhostLimits};
use serde_json::{Map, Value, json};

/// The component under which RabbitMQ keeps policies, which are not set as parameters.
const POLICY: &str = "policy";

/// Of a virtual host's limits there is one parameter, by this name.
const LIMITS_NAME: &str = "limits";

/// The keys that an operator's policy must have, and those that it may have.
const POLICY_KEYS: [&str; 3] = ["definition", "pattern", "priority"];
const POLICY_KEYS_MORE: [&str; 1] = ["apply-to"];

/// Under which the name of the cluster is kept.
const CLUSTER_NAME: &str = "cluster_name";

/// The global parameter with the operators' tags of the cluster.
const CLUSTER_TAGS: &str = "cluster_tags";

/// The parameters of virtual hosts.
pub(crate) fn find<N: Node>(node: &N, vhosts: Vec<(String, VhostId)>) -> Result<Vec<Value>, Response> {
    let asked = vhosts.clone();
    let found: Vec<(String, VhostLimits)> = node.look(move |catalog| {
        asked.into_iter().map(|(name, id)| (name, catalog.vhost_limits(id))).collect()
    })?;
    let limited = found.iter().filter(|(_, limits)| *limits != VhostLimits::default());
    let limited = limited.map(|(vhost, own)| {
        json!({ "value": limits::of_vhost(own), "vhost": vhost, "component": "vhost-limits", "name": LIMITS_NAME })
    });
    let mut rows: Vec<Value> = limited.collect();
    let asked = vhosts.clone();
    let kept: Vec<Value> = node.look(move |catalog| {
        let of_vhost = |(vhost, id): (String, VhostId)| -> Vec<Value> {
            let row = |(component, name, text): (&str, &str, &str)| {
                let value = value(text);
                json!({ "value": value, "vhost": vhost, "component": component, "name": name })
            };
            catalog.vhost_parameters(id).map(row).collect()
        };
        asked.into_iter().flat_map(of_vhost).collect()
    })?;
    let policies = policies::find(node, PolicyKind::Operator, vhosts)?;
    rows.extend(policies.into_iter().map(|policy| of_policy(policy, "operator_policy")));
    rows.extend(kept);
    Ok(rows)
}

/// A value as it is kept.
fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

/// A policy as a parameter.
fn of_policy(mut policy: Value, component: &str) -> Value {
    let (vhost, name) = (policy["vhost"].take(), policy["name"].take());
    if let Some(fields) = policy.as_object_mut() {
        fields.remove("vhost");
        fields.remove("name");
    }
    json!({ "value": policy, "vhost": vhost, "component": component, "name": name })
}

/// The parameters of a component, or of all. As with RabbitMQ, policies are told when they alone are asked for.
fn of_component<N: Node>(
    call: &Call<'_, N>,
    component: Option<&str>,
    vhost: Option<&str>,
) -> Result<Vec<Value>, Response> {
    let asked = policies::asked(call, vhost);
    if component == Some(POLICY) {
        let policies = policies::find(call.node, PolicyKind::User, asked)?;
        return Ok(policies.into_iter().map(|policy| of_policy(policy, POLICY)).collect());
    }
    let mut rows = find(call.node, asked)?;
    rows.retain(|row| component.is_none_or(|component| row["component"] == component));
    Ok(rows)
}

/// `GET /api/parameters[/COMPONENT[/VHOST]]`.
pub(crate) fn list<N: Node>(call: &Call<'_, N>, component: Option<&str>, vhost: Option<&str>) -> Answer {
    let rows = of_component(call, component, vhost)?;
    crate::list::answer(rows, call.request, &call.node.about().limits, &["vhost", "component", "name"])
}

/// `/api/parameters/COMPONENT/VHOST/NAME`.
pub(crate) fn one<N: Node>(call: &Call<'_, N>, component: &str, vhost: &str, name: &str) -> Answer {
    let rows = of_component(call, Some(component), Some(vhost))?;
    let own = rows.into_iter().find(|row| row["name"] == name);
    match (call.request.method, own) {
        (Method::Put, own) => {
            let body = Body::read(&call.request.body)?;
            let response = Response::empty(if own.is_some() { 204 } else { 201 });
            let value = body.need("value")?;
            // One that came with definitions may be changed, also of an unknown component.
            if !is_served(component) && (kept::is_known(component) || own.is_some()) {
                call.caller.vhost(vhost).map_err(|_| Response::error(404, "not_found", "vhost_not_found"))?;
                call.request(keeping(component, vhost, name, value)?)?;
                let remark = kept::remark(component);
                let (name, vhost) = (trail::quoted(name), trail::quoted(vhost));
                call.node.log(format!("parameter {name} in vhost {vhost}: {}", trail::on_one_line(&remark)));
                return Ok(response.with(REMARKS, remark));
            }
            let wanted = wanted(component, vhost, name, value)?;
            policies::check_pattern(call, &wanted)?;
            call.request(wanted)?;
            Ok(response)
        }
        (_, None) => Err(Response::not_found()),
        (Method::Delete, Some(_)) if component == POLICY => {
            Err(Response::bad_request("policies may not be cleared using this method"))
        }
        (Method::Delete, Some(_)) => {
            let (vhost, limits) = (vhost.into(), VhostLimits::default());
            call.request(match component {
                "vhost-limits" => Op::SetVhostLimits { vhost, limits },
                component if macros::are_of(component) => macros::cleared(&vhost, name),
                component if !is_served(component) => {
                    let (component, name) = (component.into(), name.into());
                    Op::SetVhostParameter { vhost, component, name, value: None }
                }
                _ => Op::ClearPolicy { kind: PolicyKind::Operator, vhost, name: name.into() },
            })?;
            Ok(Response::empty(204))
        }
        (_, Some(own)) => crate::list::one(own, call.request, &call.node.about().limits),
    }
}

/// Whether something comes of parameters of a component.
pub(crate) fn is_served(component: &str) -> bool {
    ["operator_policy", "vhost-limits", POLICY].contains(&component) || macros::are_of(component)
}

/// Keeps a parameter of a component that is not served.
pub(crate) fn keeping(component: &str, vhost: &str, name: &str, value: &Value) -> Result<Op, Response> {
    let wrong = kept::wrong(component, name, value);
    if !wrong.is_empty() {
        return Err(invalid(&wrong));
    }
    let value = Some(value.to_string().into());
    Ok(Op::SetVhostParameter { vhost: vhost.into(), component: component.into(), name: name.into(), value })
}

/// Has a parameter of a virtual host as a value says, which is an object.
pub(crate) fn wanted(component: &str, vhost: &str, name: &str, value: &Value) -> Result<Op, Response> {
    match component {
        "operator_policy" => {
            let fields = fields(name, value)?;
            check_policy(name, &fields)?;
            policies::wanted(PolicyKind::Operator, vhost, name, &Body(fields))
        }
        "vhost-limits" if name != LIMITS_NAME => {
            Err(invalid(&format!("{name} is no parameter of vhost-limits: the only one is {LIMITS_NAME}\n")))
        }
        "vhost-limits" => {
            let limits = limits::vhost_limits(&fields(name, value)?)?;
            Ok(Op::SetVhostLimits { vhost: vhost.into(), limits })
        }
        POLICY => Err(Response::bad_request("policies may not be set using this method")),
        component if macros::are_of(component) => macros::wanted(vhost, name, value),
        other => Err(invalid(&format!("component {other} not found\n"))),
    }
}

/// The fields of a parameter's value. To RabbitMQ an empty list is an empty object.
fn fields(name: &str, value: &Value) -> Result<Map<String, Value>, Response> {
    match value {
        Value::Object(fields) => Ok(fields.clone()),
        Value::Array(items) if items.is_empty() => Ok(Map::new()),
        other => Err(invalid(&format!("{name} not a list {}\n", policies::term(other)))),
    }
}

/// Whether a policy says all that it has to, and nothing else: as a parameter it has no defaults.
fn check_policy(name: &str, fields: &Map<String, Value>) -> Result<(), Response> {
    let missing = POLICY_KEYS.iter().filter(|key| !fields.contains_key(**key));
    let mut wrong: String = missing.map(|key| format!("Key \"{key}\" not found in {name}\n")).collect();
    let unknown = fields
        .iter()
        .filter(|(key, _)| !POLICY_KEYS.contains(&key.as_str()) && !POLICY_KEYS_MORE.contains(&key.as_str()));
    let unknown = unknown.map(|(key, value)| format!("{{<<\"{key}\">>,{}}}", policies::term(value)));
    let unknown: Vec<String> = unknown.collect();
    if !unknown.is_empty() {
        wrong.push_str(&format!("Unrecognised terms [{}] in {name}\n", unknown.join(",")));
    }
    if wrong.is_empty() { Ok(()) } else { Err(invalid(&wrong)) }
}

fn invalid(lines: &str) -> Response {
    Response::bad_request(format!("Validation failed\n\n{lines}"))
}

/// Parameters of the whole node, by name.
pub(crate) fn of_node<N: Node>(node: &N) -> Result<Vec<(String, Value)>, Response> {
    let about = node.about();
    let kept: Vec<(String, String)> = node.look(|catalog| {
        catalog.parameters().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    })?;
    let mut all = vec![
        (CLUSTER_NAME.to_owned(), Value::from(about.cluster.as_str())),
        (CLUSTER_TAGS.to_owned(), json!([])),
        ("internal_cluster_id".to_owned(), Value::from(about.cluster_id.as_str())),
    ];
    for (name, text) in kept {
        let value = value(&text);
        match all.iter_mut().find(|(own, _)| *own == name) {
            Some((_, own)) => *own = value,
            None => all.push((name, value)),
        }
    }
    base::brief::sort_by(&mut all, |(a, _), (b, _)| a.cmp(b));
    Ok(all)
}

fn shown((name, value): &(String, Value)) -> Value {
    json!({ "name": name, "value": value })
}

/// `GET /api/global-parameters`.
pub(crate) fn global<N: Node>(call: &Call<'_, N>) -> Answer {
    let rows = of_node(call.node)?.iter().map(shown).collect();
    crate::list::answer(rows, call.request, &call.node.about().limits, &["name"])
}

/// `/api/global-parameters/NAME`.
pub(crate) fn global_one<N: Node>(call: &Call<'_, N>, name: &str) -> Answer {
    let asked = name.to_owned();
    let is_kept = call.node.look(move |catalog| catalog.parameters().any(|(own, _)| own == asked))?;
    match call.request.method {
        Method::Put => {
            let body = Body::read(&call.request.body)?;
            let value = Some(body.need("value")?.to_string().into());
            call.request(Op::SetParameter { name: name.into(), value })?;
            Ok(Response::empty(if is_kept { 204 } else { 201 }))
        }
        Method::Delete if is_kept => {
            call.request(Op::SetParameter { name: name.into(), value: None })?;
            Ok(Response::empty(204))
        }
        Method::Delete => Err(Response::not_found()),
        _ => {
            let all = of_node(call.node)?;
            let own = all.iter().find(|(own, _)| own == name).ok_or_else(Response::not_found)?;
            crate::list::one(shown(own), call.request, &call.node.about().limits)
        }
    }
}

fn of_name<N: Node>(node: &N, name: &str) -> Result<Value, Response> {
    Ok(of_node(node)?.into_iter().find(|(own, _)| own == name).map_or(Value::Null, |(_, value)| value))
}

/// The name of the cluster.
pub(crate) fn cluster<N: Node>(node: &N) -> Result<String, Response> {
    let name = of_name(node, CLUSTER_NAME)?;
    Ok(name.as_str().map_or_else(|| node.about().cluster.clone(), str::to_owned))
}

/// The operators' tags of the cluster.
pub(crate) fn cluster_tags<N: Node>(node: &N) -> Result<Value, Response> {
    let tags = of_name(node, CLUSTER_TAGS)?;
    Ok(if tags.is_object() { tags } else { json!({}) })
}

/// `/api/cluster-name`.
pub(crate) fn cluster_name<N: Node>(call: &Call<'_, N>) -> Answer {
    if call.request.method != Method::Put {
        return Ok(Response::ok(&json!({ "name": cluster(call.node)? })));
    }
    let body = Body::read(&call.request.body)?;
    let value = Some(Value::from(body.need_text("name")?).to_string().into());
    call.request(Op::SetParameter { name: CLUSTER_NAME.into(), value })?;
    Ok(Response::empty(204))
}
