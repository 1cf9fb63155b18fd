// Package definition says how an MCP server is started or reached, as people write it: in .mcp.json of a checkout, in
// mcp.json of their settings, or in an agent's mcp_servers.
//
// Flow: [Parse] reads a file, [Resolve] finds the servers of one agent, [Server.Expand] replaces the variables when a
// server is about to start. Until then a server is as it was written: that is what a person is shown and trusts.
//
// The package reads bytes only, no files, and starts nothing. Not promised: that a server exists, or that it is safe.
package definition

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Server is an MCP server: a program that speaks on its stdin and stdout, or an address of streamable HTTP.
type Server struct {
	Name    string
	Command string // "" for an address
	Args    []string
	Env     map[string]string // in addition to the environment of the program
	Dir     string            // of the program; "" is the working directory
	URL     string            // "" for a program
	Headers map[string]string
	From    string // the file or agent that defines it
}

// Sum returns the SHA-256 of what is started or connected to, in hexadecimal digits. Two servers that differ only in
// their names have the same sum.
func (s Server) Sum() string {
	// Quoted words cannot run into each other, and maps are printed in the order of their keys.
	text := fmt.Sprintf("%q %q %q %q %q %q", s.Command, s.Args, s.Env, s.Dir, s.URL, s.Headers)
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Line returns all of how s is started or reached, on one line of printable characters. Values that the file has are
// in it: it is for the person who decides about that file.
func (s Server) Line() string {
	if s.URL != "" {
		line := word(s.URL)
		for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
			line += " with the header " + word(name) + ": " + word(s.Headers[name])
		}
		return line
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		words = append(words, word(name)+"="+word(s.Env[name]))
	}
	words = append(words, word(s.Command))
	for _, a := range s.Args {
		words = append(words, word(a))
	}
	line := strings.Join(words, " ")
	if s.Dir != "" {
		line += " in the folder " + word(s.Dir)
	}
	return line
}

// word returns text as one word of a line. A variable such as ${TOKEN} needs no quotes.
func word(text string) string {
	plain := func(r rune) bool {
		return alphanumeric(r) || strings.ContainsRune("/.:+,@%=${}?&-", r)
	}
	hidden := func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
	switch {
	case strings.ContainsFunc(text, hidden):
		return strconv.QuoteToASCII(text)
	case text == "", strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }):
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}
