package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// ParseURL parses addresses and credentials:
//
//	redis://[user[:password]@]host[:port][,host[:port]…][/database][?parameters]
//
// The scheme rediss asks for TLS. One host is a single server, several are nodes of a Cluster,
// unless a parameter says otherwise:
//
//	cluster=true         the one host is of a Cluster
//	master=NAME          the hosts are sentinels, which watch the master of that name
//	sentinelUser=USER    who asks the sentinels, with sentinelPassword=PASSWORD
//	addr=host[:port]     a further host; may be repeated
//
// Further URLs add only hosts; they may omit the scheme. Ports default to 6379, those of
// sentinels to 26379. User and password are percent-encoded. Errors never quote the password
// or a part of it.
func ParseURL(text string, further ...string) (Options, error) {
	return Options{}.WithURL(text, further...)
}

// WithURL adds what ParseURL reads to the options.
func (o Options) WithURL(text string, further ...string) (Options, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	switch {
	case ok && scheme == "rediss":
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	case !ok || scheme != "redis":
		return Options{}, errors.New("must begin with redis:// or rediss://")
	}
	// net/url supports one host only.
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		if err := o.parseUser(authority[:i]); err != nil {
			return Options{}, err
		}
		authority = authority[i+1:]
	}
	hosts := strings.Split(authority, ",")
	for _, more := range further {
		more = strings.TrimPrefix(more, scheme+"://")
		if strings.ContainsAny(more, "@/?#") {
			return Options{}, errors.New("a further URL must name hosts only, with the same scheme as the first")
		}
		hosts = append(hosts, strings.Split(more, ",")...)
	}
	if err := o.parseRest(hosts, tail); err != nil {
		if strings.Contains(tail, "@") {
			// The error of net/url may quote part of the password.
			return Options{}, errors.New("must be redis://user:password@host:port/database?parameters, with / ? # and @ percent-encoded in user, password and parameters")
		}
		return Options{}, err
	}
	return o, nil
}

// parseRest parses the hosts and what follows them.
func (o *Options) parseRest(hosts []string, tail string) error {
	u, err := url.Parse(tail)
	if err != nil || u.Fragment != "" {
		return errors.New("what follows the hosts must be /database?parameters")
	}
	if err := o.parseDatabase(u.Path); err != nil {
		return err
	}
	more, err := o.parseParameters(u.RawQuery)
	if err != nil {
		return err
	}
	if err := o.addHosts(append(hosts, more...)); err != nil {
		return err
	}
	return o.validateURL()
}

func (o *Options) parseUser(userinfo string) error {
	user, password, _ := strings.Cut(userinfo, ":")
	var errUser, errPassword error
	o.Username, errUser = url.PathUnescape(user)
	o.Password, errPassword = url.PathUnescape(password)
	if errUser != nil || errPassword != nil {
		return errors.New("user or password: invalid percent-encoding")
	}
	return nil
}

func (o *Options) parseDatabase(path string) error {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	n, err := strconv.Atoi(path)
	if err != nil || n < 0 {
		return fmt.Errorf("database %q: must be a number, at least 0", path)
	}
	o.Database = n
	return nil
}

func (o *Options) parseParameters(query string) (hosts []string, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("parameters: must be name=value, joined by &")
	}
	for name, v := range values {
		switch name {
		case "cluster":
			if o.Cluster, err = strconv.ParseBool(v[0]); err != nil {
				return nil, fmt.Errorf("parameter cluster: %q is neither true nor false", v[0])
			}
		case "master":
			if o.MasterName = v[0]; strings.Contains(v[0], "@") {
				return nil, errors.New("parameter master: a name must not contain @")
			}
		case "sentinelUser":
			o.SentinelUsername = v[0]
		case "sentinelPassword":
			o.SentinelPassword = v[0]
		case "addr":
			hosts = v
			continue
		default:
			// The name is not quoted: it may be a password.
			return nil, errors.New("a parameter is not one of addr, cluster, master, sentinelPassword, sentinelUser")
		}
		if len(v) > 1 {
			return nil, fmt.Errorf("parameter %s is given twice", name)
		}
	}
	return hosts, nil
}

func (o *Options) addHosts(hosts []string) error {
	port := "6379"
	if o.MasterName != "" {
		port = "26379"
	}
	for _, host := range hosts {
		address, err := withPort(strings.TrimSpace(host), port)
		if err != nil {
			return err
		}
		if !slices.Contains(o.Addresses, address) {
			o.Addresses = append(o.Addresses, address)
		}
	}
	if len(o.Addresses) > 1 && o.MasterName == "" {
		o.Cluster = true
	}
	return nil
}

// withPort adds the port to a host that has none.
func withPort(host, port string) (string, error) {
	switch {
	case host == "":
		return "", errors.New("a host is missing")
	case strings.Contains(host, "@"):
		return "", errors.New("a host has an @: user and password go before the first host only")
	}
	if strings.Count(host, ":") > 1 && !strings.HasPrefix(host, "[") {
		return "", fmt.Errorf("host %q: an IPv6 address must be in brackets", host)
	}
	name, given, err := net.SplitHostPort(host)
	if err != nil {
		name, given = strings.Trim(host, "[]"), port
	}
	if n, err := strconv.Atoi(given); name == "" || err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("host %q: must be host or host:port", host)
	}
	return net.JoinHostPort(name, given), nil
}

func (o *Options) validateURL() error {
	switch {
	case o.Cluster && o.MasterName != "":
		return errors.New("cluster and master exclude each other")
	case o.Cluster && o.Database != 0:
		return fmt.Errorf("database %d: a cluster has database 0 only; several hosts are a cluster unless master names the sentinels' master", o.Database)
	case o.MasterName == "" && (o.SentinelUsername != "" || o.SentinelPassword != ""):
		return errors.New("sentinelUser and sentinelPassword need master")
	}
	return nil
}
