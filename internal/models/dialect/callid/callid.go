// Package callid makes ids of calls from ids that other servers gave them.
package callid

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// Anthropic returns id with characters that Anthropic takes. The id may come from another server.
func Anthropic(id string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z') {
			return r
		}
		return '_'
	}, id)
}

// Mistral returns the id of a call as Mistral takes it: nine letters or digits. The id may come from another server.
func Mistral(id string) string {
	const length = 9
	const taken = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	if len(id) == length && strings.Trim(id, taken) == "" {
		return id
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	text := strings.Repeat("0", length) + strconv.FormatUint(h.Sum64(), 36)
	return text[len(text)-length:]
}
