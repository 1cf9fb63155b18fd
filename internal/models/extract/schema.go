package extract

import (
	"encoding/json"
	"slices"
	"strings"
)

// fieldNames lists, for each product, the JSON fields that it fills.
var fieldNames = [products]string{
	summary:  " summary abstract tldr overview text answer ",
	points:   " keypoints points mainpoints takeaways highlights bullets facts ",
	keywords: " keywords keyphrases tags topics terms ",
	outline:  " outline headings sections toc ",
}

// renderJSON returns an object for the schema raw. It fills the fields that are named like a product (see
// fieldNames) and are strings or lists of strings. It returns an error if a required field stays empty. The caller
// checks the result against the schema.
func (d *document) renderJSON(w wish, raw json.RawMessage) (string, error) {
	var schema struct {
		Properties map[string]struct {
			Type     string
			MaxItems int
		}
		Required []string
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		return "", unsupported("the built-in model does not understand the schema: " + err.Error())
	}
	object := map[string]any{}
	for name, field := range schema.Properties {
		simple := strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
		p := slices.IndexFunc(fieldNames[:], func(names string) bool { return strings.Contains(names, " "+simple+" ") })
		if simple == "title" && field.Type == "string" && len(d.sections) > 1 {
			object[name] = d.sections[1].heading
		}
		if p < 0 || field.Type != "string" && field.Type != "array" {
			continue
		}
		one := wish{product: product(p), count: field.MaxItems}
		if w.product == one.product && field.MaxItems == 0 {
			one = w
		}
		text := d.render(one)
		if field.Type == "string" && text != "" {
			object[name] = text
		}
		list := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ',' && product(p) == keywords })
		for i := range list {
			list[i] = strings.TrimLeft(list[i], "- ")
		}
		if field.Type == "array" && len(list) > 0 {
			object[name] = list
		}
	}
	missing := slices.DeleteFunc(schema.Required, func(name string) bool { return object[name] != nil })
	if len(missing) > 0 || len(object) == 0 {
		return "", unsupported("the built-in model has no values for the schema: " + strings.Join(missing, ", "))
	}
	text, err := json.Marshal(object)
	return string(text), err
}
