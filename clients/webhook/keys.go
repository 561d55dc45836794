package webhook

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Bounds on a file of keys.
const (
	maxKeyFileBytes = 16 << 10
	maxKeys         = 4
	minSecret       = 32
)

var keyName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// ParseKeys parses a file of keys: lines NAME:SECRET, the first of which signs; it ignores
// empty lines and those that begin with #. Errors don't quote secrets.
func ParseKeys(text []byte) ([]Key, error) {
	var keys []Key
	seen := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, secret, ok := strings.Cut(line, ":")
		switch {
		case !ok || !keyName.MatchString(name):
			return nil, fmt.Errorf("line %d is not NAME:SECRET, the name of letters, digits and . _ -", n)
		case len(secret) < minSecret || strings.ContainsAny(secret, " \t"):
			return nil, fmt.Errorf("line %d: the secret must have at least %d characters and no space, as from openssl rand -hex 32", n, minSecret)
		case seen[name]:
			return nil, fmt.Errorf("line %d: there is a key of that name before it", n)
		}
		seen[name] = true
		keys = append(keys, Key{name, []byte(secret)})
	}
	switch {
	case lines.Err() != nil:
		return nil, lines.Err()
	case len(keys) == 0:
		return nil, errors.New("it holds no key: write NAME:SECRET, the secret as from openssl rand -hex 32")
	case len(keys) > maxKeys:
		return nil, fmt.Errorf("it holds %d keys, more than %d", len(keys), maxKeys)
	}
	return keys, nil
}
