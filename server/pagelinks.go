package server

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// PageLink is a link that the page shows with each target, to where else people look at it.
type PageLink struct {
	Name string `json:"name"`
	// URL has {cluster}, {namespace} and {target} where the target's go, escaped.
	URL string `json:"url"`
}

// MaxPageLinks limits the links of a page.
const MaxPageLinks = 8

const maxPageLink = 2000 // bytes of a URL, which browsers take

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// ParsePageLinks reads links, each NAME=URL. Only http and https are allowed; the names of targets
// may be in the host, but do not end it: callers choose them, and must not choose whose host it is.
func ParsePageLinks(links []string) ([]PageLink, error) {
	if len(links) > MaxPageLinks {
		return nil, fmt.Errorf("at most %d links, not %d", MaxPageLinks, len(links))
	}
	var parsed []PageLink
	for _, text := range links {
		name, to, _ := strings.Cut(text, "=")
		if err := checkPageLink(name, to); err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		parsed = append(parsed, PageLink{Name: name, URL: to})
	}
	return parsed, nil
}

func checkPageLink(name, to string) error {
	if name == "" || len(name) > 40 || to == "" || len(to) > maxPageLink {
		return fmt.Errorf("must be NAME=URL, a name of 1 to 40 bytes and a URL of at most %d", maxPageLink)
	}
	for _, p := range placeholder.FindAllString(to, -1) {
		if p != "{cluster}" && p != "{namespace}" && p != "{target}" {
			return fmt.Errorf("%s: only {cluster}, {namespace} and {target} are replaced", p)
		}
	}
	const some = "placeholder"
	u, err := url.Parse(placeholder.ReplaceAllLiteralString(to, some))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return errors.New("must be a URL of http or https, without a user")
	}
	if strings.HasSuffix(u.Hostname(), some) {
		return errors.New("the host must not end with the name of a target: who names targets would choose where it leads")
	}
	return nil
}
