package servers

import (
	"slices"
	"strconv"
	"strings"
)

// Mistake is what a person wrote wrong: in the name of a model, in the name or in the description of a server. It
// shows nothing that may be a key.
type Mistake struct {
	Problem string // one line
	Hint    string // what to do, one line
	More    string // what else to do, behind what is accepted
	// Word is the word that is wrong, if Known are those that may have been meant.
	Word  string
	Known []string
}

func (m *Mistake) Error() string { return m.Problem }

// example is a description that is right.
const example = "openai http://10.0.0.7:8000/v1 key=LAB_KEY"

// options are those that a description may have behind its address. The last one takes the rest of the line.
const (
	keyCommand = "key_cmd="
	options    = "key=, context=, vision, no-tools, plain, " + keyCommand
)

// CheckName returns what is wrong with name as that of a server or an alias, or nil.
func CheckName(name string) error {
	switch name {
	case Ollama:
		return &Mistake{Problem: "ollama is the server at OLLAMA_HOST", Hint: "set OLLAMA_HOST, or take another name"}
	case "auto", "extract", "none":
		return &Mistake{Problem: name + " is a word of qq itself", Hint: "take another name"}
	}
	return nil
}

// Unset is a hint for a model whose name begins like that of a server which is not set; empty if it does not: what
// begins with a digit, and latest, is a tag of Ollama's.
func Unset(model string) string {
	server, name, ok := strings.Cut(model, ":")
	if !ok || server == "" || name == "latest" || strings.IndexAny(name, "0123456789") == 0 ||
		strings.ContainsAny(server, "/.") || CheckName(server) != nil {
		return ""
	}
	return "if " + server + " is a server of yours, set QQ_SERVER_" + server
}

// Parse reads the description of the server of that name: a kind, an address, and options. A key command is the last
// option, and takes the rest. The error is a [*Mistake].
func Parse(name, description string) (Server, error) {
	s := Server{Name: name}
	if err := CheckName(name); err != nil {
		return s, err
	}
	words, command, asks := cut(description)
	if err := s.begin(words); err != nil {
		return s, err
	}
	for i, word := range words[2:] {
		option, value, _ := strings.Cut(word, "=")
		same := func(w string) bool { o, _, _ := strings.Cut(w, "="); return o == option }
		if slices.ContainsFunc(words[2:2+i], same) && plain(option) {
			return s, &Mistake{Problem: option + " stands there twice", Hint: "leave one of them out"}
		}
		if err := s.option(option, value, word); err != nil {
			return s, err
		}
	}
	s.KeyCommand = command
	return s, s.check(asks)
}

// cut returns the words of a description, and the command behind key_cmd=, if there is that option.
func cut(description string) (words []string, command string, asks bool) {
	for rest := description; ; {
		before, after, ok := strings.Cut(rest, keyCommand)
		if !ok {
			return strings.Fields(description), "", false
		}
		if before == "" || strings.HasSuffix(before, " ") || strings.HasSuffix(before, "\t") {
			at := len(description) - len(after) - len(keyCommand)
			return strings.Fields(description[:at]), strings.TrimSpace(after), true
		}
		rest = after
	}
}

// begin reads the kind and the address.
func (s *Server) begin(words []string) error {
	kinds := strings.Join(Kinds(), ", ")
	switch {
	case len(words) == 0 || strings.Contains(words[0], "://"):
		return &Mistake{Problem: "the kind of the server is missing",
			Hint: "begin with what it speaks (" + kinds + "), for example: " + example}
	case !slices.Contains(Kinds(), words[0]):
		m := &Mistake{Problem: "it does not begin with a kind of server", Hint: "the kinds are " + kinds}
		if plain(words[0]) {
			m.Problem = words[0] + " is no kind of server"
			m.Word, m.Known = words[0], Kinds()
		}
		return m
	case len(words) == 1, s.flag(words[1]) != nil,
		strings.HasPrefix(words[1], "key="), strings.HasPrefix(words[1], "context="):
		return &Mistake{Problem: "the address is missing", Hint: "write it behind the kind, for example: " + example}
	}
	s.Kind, s.URL = words[0], words[1]
	return nil
}

// option reads one option.
func (s *Server) option(option, value, word string) error {
	switch {
	case option == "key":
		if s.KeyName = value; !isVariable(value) {
			return &Mistake{Problem: "key= takes the name of an environment variable, not the key",
				Hint: "put the key into a variable, in the environment or in your own .env, and write key=" +
					suggest(s.Name)}
		}
	case option == "context":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > 1<<30 {
			return &Mistake{Problem: "context= takes a number of tokens, from 1 on",
				Hint: "for example context=32768; leave it out if the server says it"}
		}
		if s.Kind == Ollama {
			return &Mistake{Problem: "context= is not for Ollama, which says it itself", Hint: "leave it out"}
		}
		s.Context = n
	case s.flag(option) != nil:
		if *s.flag(option) = true; word != option {
			return &Mistake{Problem: "the option " + option + " takes no value", Hint: "write " + option + " alone"}
		}
	default:
		m := &Mistake{Problem: "a word behind the address is no option",
			Hint: "the options are " + options + "; a key is never written here"}
		if plain(option) {
			m.Problem = option + " is no option"
			m.Word, m.Known = option, []string{"key", "context", "vision", "no-tools", "plain", "key_cmd"}
		}
		return m
	}
	return nil
}

// flag returns the field that an option without a value sets; nil if there is no such option.
func (s *Server) flag(option string) *bool {
	switch option {
	case "vision":
		return &s.Vision
	case "no-tools":
		return &s.NoTools
	case "plain":
		return &s.Plain
	}
	return nil
}

// check looks at the whole description. asks says that it has a key command.
func (s *Server) check(asks bool) error {
	u, err := s.Address()
	switch {
	case err != nil && strings.ContainsAny(s.URL, "@?#"):
		return &Mistake{Problem: "the address carries a user name, a password or a query",
			Hint: "write the address alone; a key is given by key=" + suggest(s.Name)}
	case err != nil && s.Kind != Ollama && !strings.Contains(s.URL, "://"):
		return &Mistake{Problem: "the address has no http:// or https://", Hint: "for example: " + example}
	case err != nil && s.Kind == Ollama:
		return &Mistake{Problem: "the address is no host", Hint: "write HOST, HOST:PORT, or a URL with http or https"}
	case err != nil:
		return &Mistake{Problem: err.Error(), Hint: "for example: " + example}
	case s.Kind != Ollama && endsInPath(u.Path):
		return &Mistake{Problem: "the address ends in the path of one request",
			Hint: "leave that path out: qq adds it, and needs the part before it, such as http://10.0.0.7:8000/v1"}
	case asks && s.KeyCommand == "":
		return &Mistake{Problem: "behind key_cmd= there is no command",
			Hint: "for example key_cmd=pass show lab; it is the last option"}
	case asks && s.KeyName != "":
		return &Mistake{Problem: "key= and key_cmd= both say where the key is", Hint: "leave one of them out"}
	case (asks || s.KeyName != "") && !s.Plain && overheard(u):
		return &Mistake{Problem: "the key would go over the internet without encryption",
			Hint: "write https://, or add the option plain if everybody on the way may read the key"}
	}
	return nil
}

// endsInPath reports whether path is that of a request, which people copy from the pages of a server.
func endsInPath(path string) bool {
	return strings.HasSuffix(path, "/chat/completions") || strings.HasSuffix(path, "/messages") ||
		strings.HasSuffix(path, "/models") || strings.Contains(path, ":generateContent")
}

// isVariable reports whether s is written like the name of an environment variable, and not like a key: in capitals,
// or short and without digits.
func isVariable(s string) bool {
	if s == "" || len(s) > 64 || strings.Contains(digits, s[:1]) {
		return false
	}
	return strings.Trim(s, capitals+digits+"_") == "" && (len(s) <= 20 || strings.Contains(s, "_")) ||
		strings.Trim(strings.ToUpper(s), capitals+"_") == "" && len(s) <= 24
}

const (
	capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits   = "0123456789"
)

// suggest returns the name of a variable for the key of the server name.
func suggest(name string) string {
	return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_KEY"
}

// plain reports whether word is a word, which can be shown. What else a person writes may be a key.
func plain(word string) bool {
	return word != "" && len(word) <= 16 && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz_") == ""
}

// hidden stands for what may be a key.
const hidden = "(hidden)"

// Shown returns a description for a person, with what may be a key left out. A key command is shown.
func Shown(description string) string {
	words, command, asks := cut(description)
	for i, word := range words {
		option, value, ok := strings.Cut(word, "=")
		switch {
		case ok && option == "key":
			if !isVariable(value) {
				words[i] = "key=" + hidden
			}
		case strings.Contains(word, "://") || i == 1 && words[0] == Ollama:
			words[i] = shownAddress(word)
		case !plain(option) || ok && option != "context":
			words[i] = hidden
		}
	}
	if asks {
		words = append(words, keyCommand+command)
	}
	return strings.Join(words, " ")
}

// shownAddress returns an address without a user name, a password and a query.
func shownAddress(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		scheme, rest = "", address
	}
	rest, _, _ = strings.Cut(rest, "?")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = hidden + rest[at:]
	}
	if plain(scheme) {
		rest = scheme + "://" + rest
	}
	return rest
}
