// Package parts takes paths apart as GNU parallel does.
package parts

import "strings"

// Of returns what of a value {}, {/}, {//}, {.} or {/.} stands for, as GNU parallel has it.
func Of(s, how string) string {
	switch how {
	case "/":
		return s[strings.LastIndex(s, "/")+1:]
	case "//":
		return folder(s)
	case ".":
		return stem(s)
	case "/.":
		return stem(Of(s, "/"))
	}
	return s
}

// folder returns the folder of a path, as the program dirname does.
func folder(s string) string {
	name := strings.TrimRight(s, "/")
	if name == "" && s != "" {
		return "/"
	}
	i := strings.LastIndex(name, "/")
	if i < 0 {
		return "."
	}
	if dir := strings.TrimRight(name[:i], "/"); dir != "" {
		return dir
	}
	return "/"
}

// stem returns a path without the extension of its last part.
func stem(s string) string {
	if i := strings.LastIndexAny(s, "/."); i >= 0 && s[i] == '.' {
		return s[:i]
	}
	return s
}
