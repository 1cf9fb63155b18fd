package config

import (
	"cmp"
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

const nameLetters = "abcdefghijklmnopqrstuvwxyz0123456789_-"

// enter adds the value of a member to c. Names of servers and aliases have no capitals.
func (s Setting) enter(c *Config, value string) error {
	name := strings.ToLower(s.member)
	switch {
	case value == None, s.Family:
		return nil
	case s.Kind == Model:
		if err := c.model(value); err != nil {
			return err
		}
		if c.Aliases == nil {
			c.Aliases = map[string]string{}
		}
		c.Aliases[name] = value
		return nil
	}
	server, err := servers.Parse(name, value)
	if err != nil {
		return err
	}
	c.Servers = slices.DeleteFunc(c.Servers, func(s servers.Server) bool { return s.Name == name })
	c.Servers = append(c.Servers, server)
	return nil
}

// Secret returns the value of a variable that is no setting, such as a key: from the environment, or else from the
// .env file of the user. A .env file of the working directory never says it.
func (c Config) Secret(name string) string { return cmp.Or(c.loader.env[name], c.loader.user[name]) }

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
	case c.loader.env[name] != "":
		return "the environment"
	case c.loader.user[name] != "":
		return "the .env of the user"
	}
	return ""
}
