//! `more_set_headers` and `more_clear_headers`: set, add and remove fields of a response's head.

use crate::downstream::reply_head::{HeadView, Mark, ReplyHead};
use crate::plan::more_headers::{HeaderChangePlan, HeaderCommandPlan, HeaderEditPlan, HeaderNamePlan};
use http1::FieldId;
use rules::template::Template;

/// Fields that a pattern with a name prefix does not match: Holdfast writes them for every response.
const OWN: [FieldId; 5] =
    [FieldId::Server, FieldId::Date, FieldId::ContentType, FieldId::ContentLength, FieldId::TransferEncoding];

/// Evaluates the template of the field with this name, as one line.
type EvaluateField<'a> = &'a dyn Fn(&[u8], &Template, HeadView<'_>) -> Vec<u8>;

/// Edits a head.
pub(crate) fn edit(commands: &[HeaderCommandPlan], head: &mut ReplyHead, answer: &[u8], value: EvaluateField<'_>) {
    for command in commands {
        let media = head.fields.value(FieldId::ContentType, answer).unwrap_or_default();
        if command.covers_status(head.status) && command.covers_type(media) {
            command.edits.iter().for_each(|edit| apply(edit, head, answer, value));
        }
    }
}

fn apply(edit: &HeaderEditPlan, head: &mut ReplyHead, answer: &[u8], value: EvaluateField<'_>) {
    let name = match &edit.name {
        HeaderNamePlan::Beginning(start) => &**start,
        HeaderNamePlan::Exact(name) => name.as_bytes(),
    };
    let written = match &edit.change {
        HeaderChangePlan::Clear => Vec::new(),
        HeaderChangePlan::Set(template) | HeaderChangePlan::Replace(template) | HeaderChangePlan::Add(template) => {
            value(name, template, head.with(answer))
        }
    };
    match &edit.name {
        HeaderNamePlan::Beginning(start) => head.fields.remove_where(answer, |id, name| {
            let begins = name.get(..start.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(start));
            begins && !OWN.contains(&id)
        }),
        HeaderNamePlan::Exact(name) if written.is_empty() => clear(name.as_bytes(), head, answer),
        HeaderNamePlan::Exact(name) if matches!(edit.change, HeaderChangePlan::Add(_)) => {
            head.fields.push_named(name.as_bytes(), &written);
        }
        HeaderNamePlan::Exact(name) => {
            if !head.fields.replace_named(name.as_bytes(), &written, answer) {
                head.fields.push_named(name.as_bytes(), &written);
            }
        }
    }
}

fn clear(name: &[u8], head: &mut ReplyHead, answer: &[u8]) {
    if FieldId::of_name(name) == FieldId::ContentLength {
        // The body's end is then marked in another way: by chunks, or by the connection.
        head.length = None;
        head.fields.move_mark_last(Mark::Length);
    }
    head.fields.remove_where(answer, |_, known| known.eq_ignore_ascii_case(name));
}

#[cfg(test)]
mod tests {
    use super::*;
    use http1::outgoing::FieldToken;

    fn exact(name: &str) -> HeaderNamePlan {
        HeaderNamePlan::Exact(FieldToken::new(name.as_bytes()).expect("a name"))
    }

    fn edited(commands: &[HeaderCommandPlan]) -> String {
        let mut head = ReplyHead::of(200);
        head.fields.push(FieldId::Server, b"s");
        head.fields.push(FieldId::ContentType, b"text/html");
        head.fields.push_named(b"X-A", b"1");
        head.fields.push_named(b"x-a", b"2");
        head.fields.push_named(b"X-B", b"3");
        edit(commands, &mut head, b"", &|_, template, _| template.as_constant().unwrap_or_default().to_vec());
        let line = |(name, value): (&[u8], &[u8])| format!("{}={};", name.escape_ascii(), value.escape_ascii());
        head.fields.iter(b"").map(line).collect()
    }

    fn command(name: HeaderNamePlan, change: HeaderChangePlan) -> HeaderCommandPlan {
        let edits = vec![HeaderEditPlan { name, change }];
        HeaderCommandPlan { statuses: Vec::new(), types: Vec::new(), edits }
    }

    fn text(text: &str) -> Template {
        Template::constant(text.as_bytes())
    }

    #[test]
    fn fields_are_set_added_and_cleared() {
        let set = command(exact("x-A"), HeaderChangePlan::Set(text("new")));
        assert_eq!(edited(&[set]), "Server=s;Content-Type=text/html;x-A=new;X-B=3;");
        let add = command(exact("X-A"), HeaderChangePlan::Add(text("3")));
        assert_eq!(edited(&[add]), "Server=s;Content-Type=text/html;X-A=1;x-a=2;X-B=3;X-A=3;");
        let own = [
            command(exact("Server"), HeaderChangePlan::Clear),
            command(exact("X-C"), HeaderChangePlan::Set(text("c"))),
        ];
        assert_eq!(edited(&own), "Content-Type=text/html;X-A=1;x-a=2;X-B=3;X-C=c;");
        let empty = command(exact("X-A"), HeaderChangePlan::Set(text("")));
        assert_eq!(edited(&[empty]), "Server=s;Content-Type=text/html;X-B=3;");
        let all = [b"x-".as_slice(), b"S", b"C"];
        let all = all.map(|start| command(HeaderNamePlan::Beginning(start.into()), HeaderChangePlan::Clear));
        assert_eq!(edited(&all), "Server=s;Content-Type=text/html;");
    }

    #[test]
    fn status_and_type_decide() {
        let mut one = command(exact("X-B"), HeaderChangePlan::Clear);
        one.statuses = vec![404, 500];
        let mut other = command(exact("X-A"), HeaderChangePlan::Clear);
        other.types = vec![b"text/css".as_slice().into(), b"text/html".as_slice().into()];
        assert_eq!(edited(&[one, other]), "Server=s;Content-Type=text/html;X-B=3;");
    }
}
