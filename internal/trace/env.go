package trace

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"qq/pkg/task"
)

const (
	prefix    = "OTEL_EXPORTER_OTLP_"
	resources = "OTEL_RESOURCE_ATTRIBUTES"
)

// FromEnv reads the variables of OpenTelemetry. It reports false when they ask for
// no export. A variable for traces alone is stronger than the general one, and an
// empty one counts as not set:
//
//	OTEL_EXPORTER_OTLP_ENDPOINT     the collector; /v1/traces is added
//	OTEL_EXPORTER_OTLP_HEADERS      name=value,…, percent-encoded
//	OTEL_EXPORTER_OTLP_TIMEOUT      milliseconds
//	OTEL_EXPORTER_OTLP_PROTOCOL     http/json; http/protobuf gets JSON too, and
//	                                collectors see that; grpc is an error
//	OTEL_EXPORTER_OTLP_TRACES_*     the same; the endpoint is used as it is
//	OTEL_TRACES_EXPORTER            anything without otlp in it turns export off
//	OTEL_SDK_DISABLED               true turns it off
//	OTEL_SERVICE_NAME               qq unless set
//	OTEL_RESOURCE_ATTRIBUTES        key=value,…, percent-encoded
//
// No error shows a value that may be a secret.
func FromEnv(getenv func(string) string) (Config, bool, error) {
	// read returns the variable for traces alone or, if that is empty, the general one: its name and its value.
	read := func(what string) (name, value string) {
		if v := getenv(prefix + "TRACES_" + what); v != "" {
			return prefix + "TRACES_" + what, v
		}
		return prefix + what, getenv(prefix + what)
	}
	name, endpoint := read("ENDPOINT")
	exporter := getenv("OTEL_TRACES_EXPORTER")
	if endpoint == "" || strings.EqualFold(strings.TrimSpace(getenv("OTEL_SDK_DISABLED")), "true") ||
		exporter != "" && !strings.Contains(exporter, "otlp") {
		return Config{}, false, nil
	}
	c := Config{ServiceName: getenv("OTEL_SERVICE_NAME")}
	u, err := url.Parse(strings.TrimSpace(endpoint))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return Config{}, false, task.Hinted("write it as http://localhost:4318",
			"%s is no address of a collector", name)
	}
	if name == prefix+"ENDPOINT" {
		u = u.JoinPath("v1/traces")
	}
	c.Endpoint = u.String()
	switch name, value := read("PROTOCOL"); value {
	case "", "http/json", "http/protobuf":
	case "grpc":
		return Config{}, false, task.Hinted("set it to http/json, and the endpoint to the collector's address "+
			"for HTTP (usually port 4318)",
			"%s is grpc, which qq does not speak", name)
	default:
		return Config{}, false, task.Hinted("accepted is http/json", "%s is %q", name, task.Shorten(value, 40))
	}
	if name, value := read("TIMEOUT"); value != "" {
		n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31)
		if err != nil || n == 0 {
			return Config{}, false, task.Hinted("write milliseconds above 0, such as 10000",
				"%s is %q", name, task.Shorten(value, 40))
		}
		c.Timeout = time.Duration(n) * time.Millisecond
	}
	name, value := read("HEADERS")
	if c.Headers, err = pairs(name, value); err != nil {
		return Config{}, false, err
	}
	for k, v := range c.Headers {
		if !httpguts.ValidHeaderFieldName(k) || !httpguts.ValidHeaderFieldValue(v) {
			return Config{}, false, task.Hinted("write name=value, several with commas between them",
				"%s: %q is no header", name, task.Shorten(k, 40))
		}
	}
	if c.Attributes, err = pairs(resources, getenv(resources)); err != nil {
		return Config{}, false, err
	}
	return c, true, nil
}

// pairs parses a list key=value,key=value whose parts are percent-encoded. name is its variable, for errors. An
// empty list gives nil.
func pairs(name, list string) (map[string]string, error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	read := map[string]string{}
	for i, entry := range strings.Split(list, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		k, v, ok := strings.Cut(entry, "=")
		key, badKey := url.PathUnescape(strings.TrimSpace(k))
		value, badValue := url.PathUnescape(strings.TrimSpace(v))
		if !ok || key == "" || cmp.Or(badKey, badValue) != nil {
			return nil, task.Hinted("separate entries with commas; "+
				"write a comma or a percent sign in a value as %2C and %25",
				"%s: entry %d is no name=value", name, i+1)
		}
		read[key] = value
	}
	return read, nil
}
