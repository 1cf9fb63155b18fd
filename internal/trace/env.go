package trace

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"qq/pkg/task"
)

// The variables, less the part that says for traces alone.
const (
	prefix     = "OTEL_EXPORTER_OTLP_"
	tracesOnly = "TRACES_"
)

// FromEnv reads the variables of OpenTelemetry; it reports false where they ask
// for no export. A variable for traces alone goes before the general one, and an
// empty one counts as absent:
//
//	OTEL_EXPORTER_OTLP_ENDPOINT     the collector; /v1/traces is added
//	OTEL_EXPORTER_OTLP_HEADERS      name=value,…, percent-encoded
//	OTEL_EXPORTER_OTLP_TIMEOUT      milliseconds
//	OTEL_EXPORTER_OTLP_PROTOCOL     http/json; http/protobuf gets JSON too, which
//	                                collectors tell apart; grpc is an error
//	OTEL_EXPORTER_OTLP_TRACES_*     the same; the endpoint is used as it is
//	OTEL_TRACES_EXPORTER            anything without otlp in it switches it off
//	OTEL_SDK_DISABLED               true switches it off
//	OTEL_SERVICE_NAME               else qq
//	OTEL_RESOURCE_ATTRIBUTES        key=value,…, percent-encoded
//
// No error shows a value that may be a secret.
func FromEnv(getenv func(string) string) (Config, bool, error) {
	endpoint, base := getenv(prefix+tracesOnly+"ENDPOINT"), getenv(prefix+"ENDPOINT")
	exporter := getenv("OTEL_TRACES_EXPORTER")
	switch {
	case endpoint == "" && base == "",
		strings.EqualFold(strings.TrimSpace(getenv("OTEL_SDK_DISABLED")), "true"),
		exporter != "" && !strings.Contains(exporter, "otlp"):
		return Config{}, false, nil
	}
	c := Config{ServiceName: getenv("OTEL_SERVICE_NAME")}
	var err error
	if endpoint != "" {
		c.Endpoint, err = address(prefix+tracesOnly+"ENDPOINT", endpoint, "")
	} else {
		c.Endpoint, err = address(prefix+"ENDPOINT", base, "v1/traces")
	}
	if err != nil {
		return Config{}, false, err
	}
	if err := protocol(either(getenv, "PROTOCOL")); err != nil {
		return Config{}, false, err
	}
	if c.Timeout, err = timeout(either(getenv, "TIMEOUT")); err != nil {
		return Config{}, false, err
	}
	if c.Headers, err = pairs(either(getenv, "HEADERS")); err != nil {
		return Config{}, false, err
	}
	if c.Attributes, err = pairs("OTEL_RESOURCE_ATTRIBUTES", getenv("OTEL_RESOURCE_ATTRIBUTES")); err != nil {
		return Config{}, false, err
	}
	name, _ := either(getenv, "HEADERS")
	for k, v := range c.Headers {
		if !httpguts.ValidHeaderFieldName(k) || !httpguts.ValidHeaderFieldValue(v) {
			return Config{}, false, fmt.Errorf("%s: %q is no header\nhint: write name=value, several with commas between them", name, task.Shorten(k, 40))
		}
	}
	return c, true, nil
}

// either is the variable for traces alone or else the general one, and its name.
func either(getenv func(string) string, what string) (name, value string) {
	if v := getenv(prefix + tracesOnly + what); v != "" {
		return prefix + tracesOnly + what, v
	}
	return prefix + what, getenv(prefix + what)
}

func address(name, value, path string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(value))
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return "", fmt.Errorf("%s is no address of a collector\nhint: write it as http://localhost:4318", name)
	}
	if path != "" {
		u = u.JoinPath(path)
	}
	return u.String(), nil
}

func protocol(name, value string) error {
	switch value {
	case "", "http/json", "http/protobuf":
		return nil
	case "grpc":
		return fmt.Errorf("%s is grpc, which qq does not speak\nhint: set it to http/json, and the endpoint to the collector's address for HTTP (usually port 4318)", name)
	}
	return fmt.Errorf("%s is %q\nhint: accepted is http/json", name, task.Shorten(value, 40))
}

func timeout(name, value string) (time.Duration, error) {
	if value == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%s is %q\nhint: write milliseconds above 0, such as 10000", name, task.Shorten(value, 40))
	}
	return time.Duration(n) * time.Millisecond, nil
}

// pairs reads key=value,key=value.
func pairs(name, list string) (map[string]string, error) {
	if strings.TrimSpace(list) == "" {
		return nil, nil
	}
	read := map[string]string{}
	for i, member := range strings.Split(list, ",") {
		if member = strings.TrimSpace(member); member == "" {
			continue
		}
		k, v, ok := strings.Cut(member, "=")
		key, badKey := url.PathUnescape(strings.TrimSpace(k))
		value, badValue := url.PathUnescape(strings.TrimSpace(v))
		if !ok || key == "" || cmp.Or(badKey, badValue) != nil {
			return nil, fmt.Errorf("%s: entry %d is no name=value\nhint: separate entries with commas; write a comma or a percent sign in a value as %%2C and %%25", name, i+1)
		}
		read[key] = value
	}
	return read, nil
}
