//! The PDDL problem of a game: what is in the room at the start, and the goal.

use std::collections::BTreeMap;

use super::error::Fault;
use super::goal::Goal;
use super::sexpr::Sexpr;

/// The kinds of things a problem declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sort {
    Agent,
    Location,
    Receptacle,
    Object,
    ReceptacleType,
    ObjectType,
}

/// What an object is and can become.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectTraits {
    /// Its type, as an index of the problem's object types.
    pub(super) kind: Option<usize>,
    pub(super) is_pickupable: bool,
    pub(super) is_toggleable: bool,
    pub(super) is_sliceable: bool,
    pub(super) is_cleanable: bool,
    pub(super) is_heatable: bool,
    pub(super) is_coolable: bool,
    pub(super) is_receptacle: bool,
    /// Objects inside it; they stay there.
    pub(super) inside: Vec<usize>,
}

/// What has happened to an object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Condition {
    pub(super) is_clean: bool,
    pub(super) is_hot: bool,
    pub(super) is_cool: bool,
    pub(super) is_sliced: bool,
    pub(super) is_toggled: bool,
}

/// Where a receptacle is and what it is.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceptacleTraits {
    pub(super) kind: Option<usize>,
    pub(super) location: Option<usize>,
    pub(super) is_openable: bool,
}

/// All that changes during play.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) location: usize,
    pub(super) held: Option<usize>,
    /// What each receptacle holds, ascending. An object may be in several: the data has such facts.
    pub(super) contents: Vec<Vec<usize>>,
    /// Objects recorded at each location, ascending; what a knife reaches.
    pub(super) objects_at: Vec<Vec<usize>>,
    pub(super) is_open: Vec<bool>,
    pub(super) condition: Vec<Condition>,
}

/// A problem with everything numbered; objects and receptacles are in the order of their ids.
#[derive(Debug, Default)]
pub(super) struct Problem {
    pub(super) object_ids: Vec<String>,
    pub(super) receptacle_ids: Vec<String>,
    pub(super) object_types: Vec<String>,
    pub(super) receptacle_types: Vec<String>,
    pub(super) objects: Vec<ObjectTraits>,
    pub(super) receptacles: Vec<ReceptacleTraits>,
    /// By receptacle type, then object type.
    pub(super) can_contain: Vec<Vec<bool>>,
    /// Whether any fact mentions the object; only such objects are numbered.
    pub(super) is_mentioned: Vec<bool>,
    pub(super) start: State,
}

impl Problem {
    /// Reads a problem from lower-case text (PDDL knows no case).
    pub(super) fn parse(text: &str) -> Result<(Self, Goal), Fault> {
        let tree = Sexpr::parse(text)?;
        let (head, sections) = tree.form()?;
        if head != "define" {
            return Err(Fault::new(
                tree.at,
                format!("expected `(define ...`, found `({head} ...`"),
            ));
        }
        let mut found: BTreeMap<&str, (usize, &[Sexpr<'_>])> = BTreeMap::new();
        for section in sections {
            let (name, body) = section.form()?;
            if found.insert(name, (section.at, body)).is_some() {
                return Err(Fault::new(section.at, format!("a second `{name}` section")));
            }
        }
        let section = |name: &str| {
            found
                .get(name)
                .copied()
                .ok_or_else(|| Fault::new(tree.at, format!("the `{name}` section is missing")))
        };
        let (domain_at, domain) = section(":domain")?;
        if !matches!(domain, [name] if name.symbol()? == "alfred") {
            return Err(Fault::new(domain_at, "the domain is not `alfred`"));
        }
        let names = Names::parse(section(":objects")?.1)?;
        let mut problem = names.empty_problem();
        let (init_at, facts) = section(":init")?;
        let mut is_placed = false;
        for fact in facts {
            is_placed |= problem.add_fact(&names, fact)?;
        }
        if !is_placed {
            return Err(Fault::new(
                init_at,
                "no `atLocation` fact: where does the agent start?",
            ));
        }
        let (goal_at, goal) = section(":goal")?;
        let [goal] = goal else {
            return Err(Fault::new(goal_at, "expected one goal formula"));
        };
        let goal = Goal::parse(goal, &problem)?;
        Ok((problem, goal))
    }

    /// Takes one fact of the start; says whether it was the place of the agent.
    fn add_fact(&mut self, names: &Names<'_>, fact: &Sexpr<'_>) -> Result<bool, Fault> {
        use Sort::{Agent, Location, Object, ObjectType, Receptacle, ReceptacleType};
        let (predicate, arguments) = fact.form()?;
        let one = |sort| names.resolve(fact, arguments, [sort]).map(|[index]| index);
        let two = |first, second| names.resolve(fact, arguments, [first, second]);
        match predicate {
            "atlocation" => {
                self.start.location = two(Agent, Location)?[1];
                return Ok(true);
            }
            "receptacleatlocation" => {
                let [receptacle, location] = two(Receptacle, Location)?;
                set_once(&mut self.receptacles[receptacle].location, location, fact)?;
            }
            "receptacletype" => {
                let [receptacle, kind] = two(Receptacle, ReceptacleType)?;
                set_once(&mut self.receptacles[receptacle].kind, kind, fact)?;
            }
            "openable" => self.receptacles[one(Receptacle)?].is_openable = true,
            "opened" => self.start.is_open[one(Receptacle)?] = true,
            "cancontain" => {
                let [receptacle, object] = two(ReceptacleType, ObjectType)?;
                self.can_contain[receptacle][object] = true;
            }
            "objecttype" => {
                let [object, kind] = two(Object, ObjectType)?;
                self.is_mentioned[object] = true;
                set_once(&mut self.objects[object].kind, kind, fact)?;
            }
            "objectatlocation" => {
                let [object, location] = two(Object, Location)?;
                self.is_mentioned[object] = true;
                insert(&mut self.start.objects_at[location], object);
            }
            "inreceptacle" => {
                let [object, receptacle] = two(Object, Receptacle)?;
                self.is_mentioned[object] = true;
                insert(&mut self.start.contents[receptacle], object);
            }
            "inreceptacleobject" => {
                let [inner, outer] = two(Object, Object)?;
                self.is_mentioned[inner] = true;
                self.is_mentioned[outer] = true;
                insert(&mut self.objects[outer].inside, inner);
            }
            "holds" => {
                let [_, object] = two(Agent, Object)?;
                self.is_mentioned[object] = true;
                set_once(&mut self.start.held, object, fact)?;
            }
            // Known to the domain, without part in the rules of the game.
            "holdsany" => drop(one(Agent)?),
            _ => {
                let object = self.object_flag(names, fact, predicate, arguments)?;
                self.is_mentioned[object] = true;
            }
        }
        Ok(false)
    }

    /// A fact with one object; gives the object back.
    fn object_flag(
        &mut self,
        names: &Names<'_>,
        fact: &Sexpr<'_>,
        predicate: &str,
        arguments: &[Sexpr<'_>],
    ) -> Result<usize, Fault> {
        let is_known = OBJECT_FLAGS.contains(&predicate);
        if !is_known {
            return Err(Fault::new(fact.at, format!("unknown fact `{predicate}`")));
        }
        let [object] = names.resolve(fact, arguments, [Sort::Object])?;
        let traits = &mut self.objects[object];
        let condition = &mut self.start.condition[object];
        match predicate {
            "pickupable" => traits.is_pickupable = true,
            "toggleable" => traits.is_toggleable = true,
            "sliceable" => traits.is_sliceable = true,
            "cleanable" => traits.is_cleanable = true,
            "heatable" => traits.is_heatable = true,
            "coolable" => traits.is_coolable = true,
            "isreceptacleobject" => traits.is_receptacle = true,
            "isclean" => condition.is_clean = true,
            "ishot" => condition.is_hot = true,
            "iscool" => condition.is_cool = true,
            "issliced" => condition.is_sliced = true,
            "istoggled" => condition.is_toggled = true,
            // `ison` and `moveable` show in no text and allow nothing.
            _ => {}
        }
        Ok(object)
    }
}

const OBJECT_FLAGS: [&str; 14] = [
    "pickupable",
    "toggleable",
    "sliceable",
    "cleanable",
    "heatable",
    "coolable",
    "isreceptacleobject",
    "isclean",
    "ishot",
    "iscool",
    "issliced",
    "istoggled",
    "ison",
    "moveable",
];

/// Declared names with their sort and number.
struct Names<'a> {
    declared: BTreeMap<&'a str, (Sort, usize)>,
    counts: BTreeMap<Sort, usize>,
}

impl<'a> Names<'a> {
    /// Reads the typed list `a b - kind c - kind ...`; numbers follow the order of the names.
    fn parse(items: &[Sexpr<'a>]) -> Result<Self, Fault> {
        let mut declared = BTreeMap::new();
        let mut waiting: Vec<(&'a str, usize)> = Vec::new();
        let mut items = items.iter();
        while let Some(item) = items.next() {
            let symbol = item.symbol()?;
            if symbol != "-" {
                waiting.push((symbol, item.at));
                continue;
            }
            let kind = items
                .next()
                .ok_or_else(|| Fault::new(item.at, "`-` without a type"))?;
            let sort = match kind.symbol()? {
                "agent" => Sort::Agent,
                "location" => Sort::Location,
                "receptacle" => Sort::Receptacle,
                "object" => Sort::Object,
                "rtype" => Sort::ReceptacleType,
                "otype" => Sort::ObjectType,
                other => return Err(Fault::new(kind.at, format!("unknown type `{other}`"))),
            };
            for (name, at) in waiting.drain(..) {
                if declared.insert(name, (sort, 0)).is_some() {
                    return Err(Fault::new(at, format!("`{name}` is declared twice")));
                }
            }
        }
        if let Some((name, at)) = waiting.first() {
            return Err(Fault::new(*at, format!("`{name}` has no type")));
        }
        let mut counts = BTreeMap::new();
        for (sort, number) in declared.values_mut() {
            let count: &mut usize = counts.entry(*sort).or_default();
            *number = *count;
            *count += 1;
        }
        Ok(Self { declared, counts })
    }

    fn of(&self, sort: Sort) -> Vec<String> {
        self.declared
            .iter()
            .filter(|(_, (is, _))| *is == sort)
            .map(|(name, _)| (*name).to_owned())
            .collect()
    }

    fn empty_problem(&self) -> Problem {
        let count = |sort| self.counts.get(&sort).copied().unwrap_or(0);
        let (objects, receptacles) = (count(Sort::Object), count(Sort::Receptacle));
        Problem {
            object_ids: self.of(Sort::Object),
            receptacle_ids: self.of(Sort::Receptacle),
            object_types: self.of(Sort::ObjectType),
            receptacle_types: self.of(Sort::ReceptacleType),
            objects: vec![ObjectTraits::default(); objects],
            receptacles: vec![ReceptacleTraits::default(); receptacles],
            can_contain: vec![vec![false; count(Sort::ObjectType)]; count(Sort::ReceptacleType)],
            is_mentioned: vec![false; objects],
            start: State {
                contents: vec![Vec::new(); receptacles],
                objects_at: vec![Vec::new(); count(Sort::Location)],
                is_open: vec![false; receptacles],
                condition: vec![Condition::default(); objects],
                ..State::default()
            },
        }
    }

    /// The numbers of a fact's arguments, which must be of these sorts.
    fn resolve<const N: usize>(
        &self,
        fact: &Sexpr<'_>,
        arguments: &[Sexpr<'_>],
        sorts: [Sort; N],
    ) -> Result<[usize; N], Fault> {
        if arguments.len() != N {
            return Err(Fault::new(
                fact.at,
                format!("expected {N} names, found {}", arguments.len()),
            ));
        }
        let mut numbers = [0; N];
        for ((argument, sort), number) in arguments.iter().zip(sorts).zip(&mut numbers) {
            let name = argument.symbol()?;
            *number = match self.declared.get(name) {
                Some((is, number)) if *is == sort => *number,
                Some((is, _)) => {
                    return Err(Fault::new(
                        argument.at,
                        format!("`{name}` is of sort {is:?}, expected {sort:?}"),
                    ));
                }
                None => return Err(Fault::new(argument.at, format!("`{name}` is not declared"))),
            };
        }
        Ok(numbers)
    }
}

fn set_once(slot: &mut Option<usize>, value: usize, fact: &Sexpr<'_>) -> Result<(), Fault> {
    match slot.replace(value) {
        Some(before) if before != value => Err(Fault::new(fact.at, "contradicts an earlier fact")),
        _ => Ok(()),
    }
}

/// Adds to an ascending list what is not there yet.
pub(super) fn insert(ascending: &mut Vec<usize>, value: usize) {
    if let Err(place) = ascending.binary_search(&value) {
        ascending.insert(place, value);
    }
}

/// Takes a value out of an ascending list.
pub(super) fn remove(ascending: &mut Vec<usize>, value: usize) {
    if let Ok(place) = ascending.binary_search(&value) {
        ascending.remove(place);
    }
}
