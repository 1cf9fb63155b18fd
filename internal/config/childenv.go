package config

import (
	"slices"
	"strings"
)

// Getenv returns the value of name in environ; the last of several counts.
func Getenv(environ []string, name string) string {
	for _, entry := range slices.Backward(environ) {
		if n, v, ok := strings.Cut(entry, "="); ok && n == name {
			return v
		}
	}
	return ""
}

// ChildEnv returns what a child process inherits of environ. It leaves out the
// settings of qq and TRACEPARENT, which the root sets itself; the settings for the
// export of traces, which only the root does; and what looks like a secret, by name
// (OPENAI_API_KEY, PGPASSWORD, SSH_AUTH_SOCK) or by value (the prefixes of
// well-known tokens, a URL with a password). Proxies stay even with a password,
// because a child may need them to reach anything.
//
// Not promised: that no secret passes. One with a harmless name does.
func ChildEnv(environ []string) []string {
	kept := make([]string, 0, len(environ))
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || strings.HasPrefix(name, "QQ_") || traces(name) || secretName(name) || secretValue(name, value) {
			continue
		}
		kept = append(kept, entry)
	}
	return kept
}

// traces reports whether the variable name configures traces or contains the current one. No child inherits it:
// only the root exports traces, with headers that are secrets, and each child gets a TRACEPARENT of its own.
func traces(name string) bool { return name == "TRACEPARENT" || strings.HasPrefix(name, "OTEL_") }

func secretName(name string) bool {
	name = strings.ToUpper(name)
	if name == "PWD" { // the working directory; MYSQL_PWD is a password
		return false
	}
	words := strings.FieldsFunc(name, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') })
	return slices.ContainsFunc(words, func(w string) bool {
		switch strings.TrimSuffix(w, "S") {
		case "KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PWD", "PAS", "PASSPHRASE", "CREDENTIAL", "CRED", "AUTH",
			"PRIVATE", "PAT", "COOKIE", "JWT", "BEARER":
			return true
		}
		// Written together: APIKEY, ACCESSTOKEN, PGPASSWORD, SECRETKEY.
		return strings.Contains(w, "PASSWORD") || strings.Contains(w, "PASSWD") || strings.Contains(w, "SECRET") ||
			strings.HasSuffix(w, "TOKEN") || strings.HasSuffix(w, "APIKEY") || strings.HasSuffix(w, "ACCESSKEY") ||
			strings.HasSuffix(w, "PRIVATEKEY")
	})
}

func secretValue(name, value string) bool {
	value = strings.TrimSpace(value)
	if strings.HasPrefix(value, "-----BEGIN ") && strings.Contains(value, "PRIVATE KEY") {
		return true
	}
	if _, rest, ok := strings.Cut(value, "://"); ok {
		authority, _, _ := strings.Cut(rest, "/")
		user, _, at := strings.Cut(authority, "@")
		_, password, _ := strings.Cut(user, ":")
		return at && password != "" && !strings.HasSuffix(strings.ToUpper(name), "_PROXY")
	}
	if len(value) < 16 || strings.ContainsAny(value, " /") {
		return false // too short for a token, or a path or a text
	}
	return slices.ContainsFunc([]string{
		"sk-", "sk_live_", "sk_test_", "rk_live_", "gsk_", "hf_", "r8_", "xai-", "nvapi-", // model and payment services
		// Code hosts, registries.
		"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "npm_", "pypi-", "dop_v1_",
		"xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xapp-", "SG.", "shpat_", "tskey-", // services
		"AKIA", "ASIA", "AIza", "ya29.", "eyJ", "AGE-SECRET-KEY-", // clouds, JSON Web Tokens, age
	}, func(prefix string) bool { return strings.HasPrefix(value, prefix) })
}
