package config

import (
	"slices"
	"strings"
)

// masked replaces hidden values.
const masked = "xxxxx"

// harmless are the parameters of URLs that are shown. All others are masked: one that is added
// to a URL some day is secret until it is listed here.
var harmless = []string{"addr", "cluster", "master"}

// Mask hides possible secrets in a URL, whichever setting it belongs to: user info, and
// parameters that are not known to be harmless. It parses by hand, because net/url refuses
// several hosts. Of a URL with an unescaped sign in its password only the scheme is shown.
func Mask(value string) string {
	scheme, rest, isURL := strings.Cut(value, "://")
	if !isURL {
		return value
	}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		authority = masked + authority[at:]
	}
	path, query, queried := strings.Cut(tail, "?")
	if strings.ContainsAny(path, "@#") || strings.Contains(query, "#") {
		return scheme + "://" + masked
	}
	if !queried {
		return scheme + "://" + authority + path
	}
	parameters := strings.Split(query, "&")
	for i, parameter := range parameters {
		name, value, given := strings.Cut(parameter, "=")
		switch {
		case strings.Contains(name, "@"):
			return scheme + "://" + masked
		case !given:
			parameters[i] = masked
		case !slices.Contains(harmless, name) || strings.Contains(value, "@"):
			parameters[i] = name + "=" + masked
		}
	}
	return scheme + "://" + authority + path + "?" + strings.Join(parameters, "&")
}
