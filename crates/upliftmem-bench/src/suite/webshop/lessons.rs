//! What a purchase in WebShop says, in sentences: how the product was found, what was worth reading, what went wrong.
//!
//! A purchase is one case, and its lessons speak as if it were the rule. They name kinds of products and parts of
//! instructions, and no product, price or query, as the paper asks of its writer.

use super::super::{Experience, Lesson, LessonKind, capital};
use crate::webshop::agent::{Account, Check, Order, Phrasing, RECORD, Results};

fn account(experience: &Experience) -> Account {
    let actions = experience.execution.trajectory.iter();
    Account::of(&experience.task.context, actions.map(|step| step.action.as_str()))
}

/// The lessons of a purchase.
pub(super) fn lessons(experience: &Experience) -> Vec<Lesson> {
    let account = account(experience);
    let mut lessons = facts(&account, experience);
    if experience.succeeded() {
        lessons.extend(procedure(&account, experience));
    } else {
        lessons.extend(reflection(&account));
    }
    lessons
}

/// What a fact says of a way to search.
fn found_by(kind: &str, phrasing: Phrasing) -> String {
    format!(
        "{} are found when you search for {}.",
        capital(kind),
        phrasing.words()
    )
}

fn facts(account: &Account, experience: &Experience) -> Vec<Lesson> {
    let kind = &account.request.kind;
    let mut facts = Vec::new();
    let mut push = |subject: String, text: String| {
        facts.push(Lesson {
            kind: LessonKind::Fact,
            subject,
            topic: kind.clone(),
            text,
            denies: Vec::new(),
        });
    };
    if let Some(search) = account.searches.last()
        && account.bought
        && account.chose_all()
    {
        push(
            format!("how to search for {kind}"),
            found_by(kind, search.phrasing),
        );
        if search.opened.len() > 1 {
            let text = format!(
                "The first results for {kind} often lack an option. Look at up to {} products.",
                search.opened.len()
            );
            push(format!("how many {kind} to look at"), text);
        }
    }
    for page in &account.checks {
        let Some(button) = page.button() else { continue };
        let says = read_in(account, experience, button);
        let text = if says {
            format!("The {button} page of {kind} says what they are. Check the {button} before you buy.")
        } else {
            format!("The {button} page of {kind} says little of what is asked. Do not read it.")
        };
        push(format!("what to read of {kind}"), text);
    }
    facts
}

/// Whether a page that was read said all that was wanted.
fn read_in(account: &Account, experience: &Experience, button: &str) -> bool {
    let clicked = format!("click[{button}]");
    let pages = experience
        .execution
        .trajectory
        .iter()
        .filter(|step| step.action == clicked);
    let text: String = pages
        .map(|step| {
            step.observation
                .split(" [SEP] ")
                .skip(2)
                .collect::<String>()
                .to_lowercase()
        })
        .collect();
    let mut words = account
        .request
        .features
        .iter()
        .flat_map(|feature| feature.split_whitespace());
    words.all(|word| text.contains(word))
}

/// By what the first product was taken from the results: the listed order, unless the page shows another reason.
fn order_of(account: &Account, experience: &Experience) -> Option<Order> {
    let first = account.searches.last()?.opened.first()?;
    let clicked = format!("click[{first}]");
    let steps = &experience.execution.trajectory;
    let at = steps.iter().rposition(|step| step.action == clicked)?;
    let page = Results::read(&steps.get(at.checked_sub(1)?)?.observation);
    page.reason_for(first, &account.request)
}

fn procedure(account: &Account, experience: &Experience) -> Option<Lesson> {
    let kind = &account.request.kind;
    let search = account.searches.last()?;
    let mut text = format!("How to find {kind}: search for {}.", search.phrasing.words());
    text += match order_of(account, experience) {
        Some(Order::Price) => " Open the cheapest product first.",
        Some(Order::Title) => " Open first what says most of it in its title.",
        _ => " Open the results in the order of the page.",
    };
    if let Some(button) = account.checks.first().and_then(|check| check.button()) {
        text += &format!(" Check the {button} before you buy.");
    }
    text += &match search.opened.len() {
        0 | 1 => " Buy the first product.".to_owned(),
        count => format!(" If an option is missing, look at the next one, up to {count} products."),
    };
    if account.searches.len() > 1 {
        text += " If nothing fits, search again.";
    } else if account.turned_pages {
        text += " If nothing fits, go to the next page of results.";
    }
    Some(Lesson {
        kind: LessonKind::Procedure,
        subject: kind.clone(),
        topic: kind.clone(),
        text,
        denies: Vec::new(),
    })
}

/// Why a purchase was not right, and what to try instead, as the one who made it would say: a guess, which nothing has
/// confirmed.
fn reflection(account: &Account) -> Option<Lesson> {
    let kind = &account.request.kind;
    let search = account.searches.last()?;
    let tried: Vec<Phrasing> = account.searches.iter().map(|search| search.phrasing).collect();
    // The guess goes round, so that every way to search is some purchase's guess.
    let all = Phrasing::ALL;
    let last = all
        .iter()
        .position(|phrasing| *phrasing == search.phrasing)
        .unwrap_or(0);
    let mut others = all.iter().cycle().skip(last + 1).take(all.len());
    let untried = others.find(|phrasing| !tried.contains(phrasing))?;
    let mut text = format!("What went wrong with {kind}:");
    let mut denies = Vec::new();
    if account.bought && account.chose_all() {
        // All that could be chosen was right, so the product was not what was asked for.
        text += match account.checks.first() {
            None => " it was bought too soon. Check the features before you buy.",
            Some(Check::Features) => " the features were not enough. Check the description before you buy.",
            Some(_) => " the description was not enough. Check the features before you buy.",
        };
    } else {
        denies.push(found_by(kind, search.phrasing));
        text += &format!(
            " an option was not there. Searching for {} did not find it. Search for {} instead.",
            search.phrasing.words(),
            untried.words()
        );
        if search.opened.len() < 3 {
            text += &format!(" Look at up to {} products.", search.opened.len() + 2);
        }
    }
    Some(Lesson {
        kind: LessonKind::Reflection,
        subject: kind.clone(),
        topic: kind.clone(),
        text,
        denies,
    })
}

/// A purchase as it was: the instruction, every action, how it ended.
pub(super) fn transcript(experience: &Experience) -> String {
    let asked = format!("{RECORD}{}", experience.task.context);
    experience.transcript(&asked, "It was the right one.", "It was not the right one.")
}

#[cfg(test)]
mod tests {
    use upliftmem_agent::Execution;
    use upliftmem_core::{Cost, Performance, Task, TrajectoryStep};

    use super::*;

    fn experience(reward: f64, steps: &[(&str, &str)]) -> Experience {
        let steps = steps.iter().map(|(action, observation)| TrajectoryStep {
            action: (*action).to_owned(),
            observation: (*observation).to_owned(),
        });
        Experience {
            task: Task::new(
                "webshop/1",
                "Find me solid wood beds with size: king, and price lower than 30.00 dollars",
            ),
            execution: Execution {
                performance: Performance::new(reward).unwrap(),
                cost: Cost::new(steps.len() as f64).unwrap(),
                trajectory: steps.collect(),
                diagnostics: serde_json::Map::new(),
            },
        }
    }

    const FOUND: &str = "Page 1 (Total results: 2) [SEP] B000000001 [SEP] A bed [SEP] $9.00 [SEP] B000000002 [SEP] Beds [SEP] $8.00";

    #[test]
    fn a_success_says_how() {
        let seen = experience(
            1.0,
            &[
                ("search[beds king]", FOUND),
                ("click[b000000002]", ""),
                ("click[features]", "Instruction: [SEP] x [SEP] solid WOOD"),
                ("click[< prev]", ""),
                ("click[king]", ""),
                ("click[buy now]", ""),
            ],
        );
        let texts: Vec<String> = lessons(&seen).into_iter().map(|lesson| lesson.text).collect();
        assert_eq!(
            texts,
            [
                "Beds are found when you search for the kind and the options.",
                "The features page of beds says what they are. Check the features before you buy.",
                "How to find beds: search for the kind and the options. Open the cheapest product first. Check the features before \
                 you buy. Buy the first product."
            ]
        );
        assert!(transcript(&seen).starts_with("The instruction was: Find me solid wood beds"));
    }

    #[test]
    fn a_failure_guesses_and_denies() {
        let seen = experience(
            0.5,
            &[
                ("search[beds]", FOUND),
                ("click[b000000001]", ""),
                ("click[buy now]", ""),
            ],
        );
        let lessons = lessons(&seen);
        assert_eq!(lessons.len(), 1);
        assert_eq!(
            lessons[0].text,
            "What went wrong with beds: an option was not there. Searching for the kind only did not find it. Search for the \
             features only instead. Look at up to 3 products."
        );
        assert_eq!(
            lessons[0].denies,
            ["Beds are found when you search for the kind only."]
        );
        assert!(super::lessons(&experience(0.0, &[])).is_empty());
    }
}
