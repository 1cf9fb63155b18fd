package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"qq/internal/models/servers"
)

// members puts behind each family of settings its members: one for each variable of any source.
func (l *loader) members() {
	var all []Setting
	for _, s := range l.settings {
		if all = append(all, s); !s.Family {
			continue
		}
		var names []string
		for _, from := range l.layers {
			names = append(names, s.names(from.values)...)
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			one := s
			one.Name, one.Family, one.member = name, false, name[len(s.prefix()):]
			all = append(all, one)
		}
	}
	l.settings = all
}

// names returns the names in values that are s, or members of s, in order.
func (s Setting) names(values map[string]string) []string {
	if _, ok := values[s.Name]; ok && !s.Family {
		return []string{s.Name}
	}
	if !s.Family {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(values)), func(name string) bool { return !s.has(name) })
}

// prefix returns how the names of the members of a family begin.
func (s Setting) prefix() string { return strings.TrimSuffix(s.Name, "NAME") }

// has reports whether the variable of that name is a member of the family s.
func (s Setting) has(name string) bool {
	own, ok := strings.CutPrefix(name, s.prefix())
	return ok && s.Family && own != "" && len(own) <= 32 && strings.Trim(strings.ToLower(own), nameLetters) == ""
}

// defines reports whether a source says what the name of a model begins with: a server, or the whole as an alias.
func (l *loader) defines(model string) bool {
	server, _, ok := strings.Cut(model, ":")
	return slices.ContainsFunc(l.settings, func(s Setting) bool {
		name := strings.ToLower(s.member)
		return name != "" && (s.Kind == Server && ok && name == server || s.Kind == Model && name == model)
	})
}

const nameLetters = "abcdefghijklmnopqrstuvwxyz0123456789_-"

// enter adds the value of a member to c, and returns it as `qq config` shows it. Names of servers and aliases have no
// capitals.
func (s Setting) enter(c *Config, value string) (string, error) {
	if value == None || s.Family {
		return value, nil
	}
	name := strings.ToLower(s.member)
	if s.Kind == Model {
		return value, c.alias(name, value)
	}
	server, err := servers.Parse(name, value)
	if err != nil {
		return value, err
	}
	if slices.ContainsFunc(c.Servers, func(s servers.Server) bool { return s.Name == name }) {
		return value, &servers.Mistake{Problem: "another variable sets the server " + name + " too",
			Hint: "capital letters do not count: keep one of them"}
	}
	c.Servers = append(c.Servers, server)
	return server.String(), nil
}

// alias adds the alias name for the model value.
func (c *Config) alias(name, value string) error {
	if err := servers.CheckName(name); err != nil {
		return err
	}
	if c.Aliases[name] != "" {
		return &servers.Mistake{Problem: "another variable sets the alias " + name + " too",
			Hint: "capital letters do not count: keep one of them"}
	}
	if c.Aliases[value] != "" {
		return &servers.Mistake{Problem: value + " is an alias itself",
			Hint: "write what it stands for: " + c.Aliases[value]}
	}
	if err := c.model(value); err != nil {
		return err
	}
	if c.Aliases == nil {
		c.Aliases = map[string]string{}
	}
	c.Aliases[name] = value
	return nil
}

// Models returns the names that can stand in the name of a model besides ollama: of servers, and aliases.
func (c Config) Models() (known, aliases []string) {
	for _, s := range c.AllServers() {
		if s.Name != servers.Ollama {
			known = append(known, s.Name)
		}
	}
	return known, slices.Sorted(maps.Keys(c.Aliases))
}

// Secret returns the value of a variable that is no setting, such as a key: from the environment, or else from the
// .env file of the user. A .env file of the working directory never says it, and the command of an agent gets none
// from a file.
func (c Config) Secret(name string) string {
	switch {
	case c.loader == nil:
		return ""
	case c.Depth > 0:
		return c.loader.env[name]
	}
	return cmp.Or(c.loader.env[name], c.loader.user[name])
}

// model checks the name of a model. An alias stands for a whole name.
func (c *Config) model(value string) error {
	server, name, ok := strings.Cut(value, ":")
	var known []string
	for _, s := range c.AllServers() {
		known = append(known, s.Name)
	}
	named := slices.Contains(known, server)
	switch {
	case value == "auto", value == "extract", c.Aliases[value] != "", ok && named && name != "":
		return nil
	case named:
		return &servers.Mistake{Problem: "it names no model of " + server,
			More: "qq models list --server " + server + " shows the names"}
	}
	return c.unknown(value, known)
}

// unknown says what is wrong with a value that is no model, and what may have been meant.
func (c *Config) unknown(value string, known []string) *servers.Mistake {
	if server, name, ok := strings.Cut(value, "/"); ok && name != "" && slices.Contains(known, server) {
		hint := "write " + server + ":" + name
		if server != servers.Ollama {
			hint += ", or openrouter:" + value + " if OpenRouter serves it"
		}
		return &servers.Mistake{Problem: "behind the name of a server stands a colon, not a slash", Hint: hint}
	}
	server, _, tagged := strings.Cut(value, ":")
	home, title := maker(value)
	m := &servers.Mistake{
		Problem: fmt.Sprintf("it is no model that qq knows (a model of %s is written %q)", title, home+":"+value),
	}
	switch {
	case !tagged:
		m.Word, m.Known = server, slices.Concat([]string{"auto", "extract"}, slices.Sorted(maps.Keys(c.Aliases)))
		m.More = "qq models lists the models of your servers"
	default:
		if m.More = servers.Unset(value); m.More != "" {
			m.Word, m.Known = server, known
		}
	}
	return m
}

// maker returns the server that has models with such names, and how messages name it.
func maker(model string) (server, title string) {
	switch {
	case strings.HasPrefix(model, "claude-"):
		return servers.Anthropic, "Anthropic"
	case strings.HasPrefix(model, "gemini-"):
		return servers.Gemini, "Google"
	case strings.HasPrefix(model, "gpt-") && !strings.HasPrefix(model, "gpt-oss"):
		return servers.OpenAI, "OpenAI"
	}
	return servers.Ollama, "Ollama"
}

// Keyless returns environ without the keys of model servers: the variables that are said to have one, and others with
// the same value.
func (c Config) Keyless(environ []string) []string {
	names, keys := map[string]bool{}, map[string]bool{}
	for _, s := range c.AllServers() {
		if s.KeyName == "" {
			continue
		}
		names[s.KeyName] = true
		if key := strings.TrimSpace(c.Secret(s.KeyName)); len(key) >= shortestKey {
			keys[key] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		return names[name] || keys[strings.TrimSpace(value)]
	})
}

// shortestKey is how long a key is at least. Shorter ones are words such as none, for servers that want some key.
const shortestKey = 8

// UsableServers returns those of [Config.AllServers] that can be asked without more configuration: those of the user,
// those on this machine, and the others whose key is set.
func (c Config) UsableServers() []servers.Server {
	return slices.DeleteFunc(c.AllServers(), func(s servers.Server) bool {
		return !s.Own && s.KeyName != "" && strings.TrimSpace(c.Secret(s.KeyName)) == ""
	})
}

// SecretSource returns where the value of [Config.Secret] comes from; "" if there is none.
func (c Config) SecretSource(name string) string {
	switch {
	case c.Secret(name) == "":
		return ""
	case c.loader.env[name] != "":
		return "the environment"
	}
	return "the .env of the user"
}
