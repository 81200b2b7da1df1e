"use strict";
// Renders the OpenAPI document. Everything from it is set as text, never as markup.
const make = (tag, text, className) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
};

const resolve = (doc, schema) => {
  let found = schema;
  for (let depth = 0; found && found.$ref && depth < 8; depth += 1) {
    found = found.$ref.split("/").slice(1).reduce((at, key) => at && at[key], doc);
  }
  return found || {};
};

const nameOf = (schema) => {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf || schema.oneOf) return (schema.anyOf || schema.oneOf).map(nameOf).join(" | ");
  if (schema.enum) return schema.enum.join(" | ");
  const type = Array.isArray(schema.type) ? schema.type.join(" | ") : schema.type || "any";
  return type === "array" && schema.items ? nameOf(schema.items) + "[]" : type;
};

const fields = (doc, schema) => {
  const found = resolve(doc, schema);
  const parts = [found, ...(found.allOf || [])].map((part) => resolve(doc, part));
  const table = make("table");
  const head = make("tr");
  for (const title of ["field", "type", ""]) head.append(make("th", title));
  table.append(head);
  for (const part of parts) {
    for (const [name, field] of Object.entries(part.properties || {})) {
      const row = make("tr");
      const needed = (part.required || []).includes(name);
      row.append(make("td", name + (needed ? " *" : "")), make("td", nameOf(field)), make("td", field.description || ""));
      table.append(row);
    }
  }
  return table;
};

const content = (message) => Object.entries((message && message.content) || {});

const operation = (doc, path, method, op) => {
  const box = make("details");
  box.id = op.operationId;
  const summary = make("summary");
  summary.append(make("span", method.toUpperCase(), "method"), make("code", path), make("span", "  " + (op.summary || ""), "note"));
  const inside = make("div", undefined, "inside");
  inside.append(make("p", "Needs a key that allows: " + op["x-permission"]));
  if ((op.parameters || []).length) {
    inside.append(make("h4", "Parameters"));
    const schema = { properties: {}, required: [] };
    for (const parameter of op.parameters) {
      schema.properties[parameter.name] = { ...parameter.schema, description: parameter.in + (parameter.schema.description ? ": " + parameter.schema.description : "") };
      if (parameter.required) schema.required.push(parameter.name);
    }
    inside.append(fields(doc, schema));
  }
  for (const [media, body] of content(op.requestBody)) {
    inside.append(make("h4", "Body: " + media + " " + nameOf(body.schema)), fields(doc, body.schema));
  }
  for (const [media, body] of content(op.responses["200"])) {
    inside.append(make("h4", "Answer: " + media + " " + nameOf(body.schema)), fields(doc, body.schema));
  }
  box.append(summary, inside);
  return box;
};

const show = (doc) => {
  const main = document.getElementById("routes");
  const tags = new Map();
  for (const [path, methods] of Object.entries(doc.paths)) {
    for (const [method, op] of Object.entries(methods)) {
      const tag = (op.tags && op.tags[0]) || "other";
      if (!tags.has(tag)) tags.set(tag, []);
      tags.get(tag).push(operation(doc, path, method, op));
    }
  }
  main.replaceChildren();
  for (const [tag, boxes] of tags) {
    const section = make("section");
    section.append(make("h2", tag), ...boxes);
    main.append(section);
  }
  document.getElementById("filter").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const section of main.children) {
      let any = false;
      for (const box of section.querySelectorAll("details")) {
        const hit = box.querySelector("summary").textContent.toLowerCase().includes(wanted);
        box.hidden = !hit;
        any = any || hit;
      }
      section.hidden = !any;
    }
  });
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target) { target.open = true; target.scrollIntoView(); }
};

fetch("/openapi.json")
  .then((answer) => answer.json())
  .then(show)
  .catch((error) => { document.getElementById("routes").textContent = "The document could not be loaded: " + error; });
