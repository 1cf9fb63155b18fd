package extract

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"qq/internal/models/extract/digest"
	"qq/internal/models/extract/prose"
	"qq/pkg/llm"
)

// render answers a wish about a text, as text or as JSON of a schema. The name
// of its file may be empty.
func render(ctx context.Context, text, name string, w digest.Wish, schema json.RawMessage) (string, error) {
	if name != "" {
		name += ": "
	}
	if strings.TrimSpace(text) == "" {
		return "", &llm.Error{Kind: llm.Rejected, Problem: name + "the file is empty"}
	}
	d := digest.New(prose.Parse(text, strings.TrimSuffix(name, ": ")))
	if schema != nil {
		return renderJSON(ctx, d, w, schema)
	}
	answer, err := d.Make(ctx, w)
	switch {
	case err != nil || answer != "":
	case prose.IsDiff(text):
		err = unsupported(name + "the text is a difference of files, and has no sentences to quote")
	default:
		err = unsupported(name + "the text has no sentences to quote")
	}
	return answer, err
}

// property is what a simple schema says about one field.
type property struct {
	Type     string    `json:"type"`
	Items    *property `json:"items"`
	MaxItems *int      `json:"maxItems"`
	MinItems int       `json:"minItems"`
}

// objectSchema is a simple schema of an object.
type objectSchema struct {
	Type       string                     `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
}

// renderJSON fills in an object whose fields are strings and lists of strings
// with names that say what belongs there. For any other schema an honest value
// cannot be quoted, and that is the error.
func renderJSON(ctx context.Context, d *digest.Document, w digest.Wish, raw json.RawMessage) (string, error) {
	var schema objectSchema
	if json.Unmarshal(raw, &schema) != nil || schema.Type != "object" || !plainSchema(raw, "properties", "required", "additionalProperties") {
		return "", unsupported("the built-in model fills in only simple objects, not this schema")
	}
	object := map[string]any{}
	for name, raw := range schema.Properties {
		value, err := field(ctx, d, w, name, raw)
		if err != nil {
			return "", err
		}
		if value != nil {
			object[name] = value
		}
	}
	for _, name := range schema.Required {
		if _, ok := object[name]; !ok {
			return "", unsupported(fmt.Sprintf("the built-in model has no value for the required field %q of the schema", name))
		}
	}
	if len(object) == 0 {
		return "", unsupported("the built-in model knows no field of the schema")
	}
	text, err := json.Marshal(object)
	return string(text), err
}

// plainSchema reports whether a schema has no other keywords than those that
// are understood here, and remarks.
func plainSchema(raw json.RawMessage, known ...string) bool {
	var keys map[string]json.RawMessage
	if json.Unmarshal(raw, &keys) != nil {
		return false
	}
	for key := range keys {
		switch key {
		case "type", "title", "description", "$schema", "$id", "$comment", "examples", "default":
		default:
			if !slices.Contains(known, key) {
				return false
			}
		}
	}
	return true
}

// field is the value of one field; nil when none can be given.
func field(ctx context.Context, d *digest.Document, w digest.Wish, name string, raw json.RawMessage) (any, error) {
	var p property
	if json.Unmarshal(raw, &p) != nil || !plainSchema(raw, "items", "maxItems", "minItems") {
		return nil, nil
	}
	switch {
	case p.Type == "string":
		text, err := textField(ctx, d, w, fieldName(name))
		if text == "" {
			return nil, err
		}
		return text, err
	case p.Type != "array" || p.Items == nil || p.Items.Type != "string" || !plainItems(raw):
		return nil, nil
	}
	list, err := listField(ctx, d, w, fieldName(name))
	if p.MaxItems != nil {
		list = list[:min(len(list), max(*p.MaxItems, 0))]
	}
	if len(list) < max(p.MinItems, 1) {
		return nil, err
	}
	return list, err
}

func plainItems(raw json.RawMessage) bool {
	var holder struct {
		Items json.RawMessage `json:"items"`
	}
	return json.Unmarshal(raw, &holder) == nil && plainSchema(holder.Items)
}

// fieldName makes keyPoints, key-points and key_points the same.
func fieldName(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
}

func textField(ctx context.Context, d *digest.Document, w digest.Wish, name string) (string, error) {
	switch name {
	case "summary", "abstract", "tldr", "overview", "synopsis", "gist", "text", "answer":
		w.Products = []digest.Product{digest.Summary}
	case "keypoints", "mainpoints", "takeaways":
		w.Products = []digest.Product{digest.Points}
	case "keywords", "tags":
		w.Products = []digest.Product{digest.Keywords}
	case "outline":
		w.Products = []digest.Product{digest.Outline}
	case "title", "heading", "headline":
		if all := d.Headings(); len(all) > 0 {
			return all[0], nil
		}
		return "", nil
	default:
		return "", nil
	}
	return d.Make(ctx, w)
}

func listField(ctx context.Context, d *digest.Document, w digest.Wish, name string) ([]string, error) {
	switch name {
	case "keypoints", "points", "mainpoints", "takeaways", "keytakeaways", "highlights", "bullets", "facts":
		return d.Quotes(ctx, digest.Points, w)
	case "summary", "sentences":
		return d.Quotes(ctx, digest.Summary, w)
	case "keywords", "keyphrases", "tags", "topics", "terms":
		return d.Keywords(w.Count[digest.Keywords]), nil
	case "outline", "headings", "sections", "toc":
		return d.Headings(), nil
	}
	return nil, nil
}
