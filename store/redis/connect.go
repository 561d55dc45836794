package redis

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Secrets are what the options have of secrets, where these change while the store is open.
// They count for new connections; open ones stay, as Redis lets them. A nil function is one
// whose secret does not change. They are called concurrently and must not block.
type Secrets struct {
	// Password and SentinelPassword replace those of the options. The latter is for the
	// sentinels of the options' addresses, not for others that these name.
	Password, SentinelPassword func() string
	// TLS replaces the options' TLS, for a server of that name or IP address.
	TLS func(host string) *tls.Config
	// Renew is called when a server refuses the password, or its certificate is not
	// trusted: it looks for new secrets at once and reports whether there are any. Then the
	// connection or command is tried again.
	Renew func(context.Context) bool
}

func (s *Secrets) renew(ctx context.Context) bool { return s.Renew != nil && s.Renew(ctx) }

// credentials are those of new connections to servers, for go-redis; nil: the options'.
func (o *Options) credentials() func(context.Context) (user, password string, err error) {
	if o.Secrets.Password == nil {
		return nil
	}
	return func(context.Context) (string, string, error) { return o.Username, o.Secrets.Password(), nil }
}

// dialer is how go-redis connects where there are secrets or TLS, whose errors it says less of; nil: its own way.
func (o *Options) dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	if o.TLS == nil && o.Secrets.TLS == nil && o.Secrets.SentinelPassword == nil {
		return nil
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, o.Timeout)
		defer cancel()
		conn, refused, err := o.connect(ctx, network, address)
		if refused && o.Secrets.renew(ctx) {
			conn, _, err = o.connect(ctx, network, address)
		}
		return conn, err
	}
}

// connect returns a connection, with TLS if there is to be TLS, and authenticated if it leads to a
// sentinel, whose password go-redis can't ask for. refused reports that other secrets may help.
func (o *Options) connect(ctx context.Context, network, address string) (conn net.Conn, refused bool, err error) {
	var d net.Dialer
	if conn, err = d.DialContext(ctx, network, address); err != nil {
		return nil, false, err
	}
	raw := conn
	if config := o.tlsFor(address); config != nil {
		secure := tls.Client(raw, config)
		if err = secure.HandshakeContext(ctx); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				err = fmt.Errorf("no answer to the TLS handshake, as of a port without TLS, whose URL is redis://: %w", err)
			}
			// As an error of dialing, since no command was sent.
			err = &net.OpError{Op: "dial", Net: network, Addr: raw.RemoteAddr(), Err: err}
		}
		conn = secureConn{secure, o.Timeout}
	}
	if err == nil && o.Secrets.SentinelPassword != nil && slices.Contains(o.Addresses, address) {
		err = authenticate(ctx, conn, o.SentinelUsername, o.Secrets.SentinelPassword())
	}
	if err != nil {
		_ = raw.Close()
		return nil, true, err
	}
	return conn, false, nil
}

// secureConn is a TLS connection of which go-redis finds before a command that the other side has closed it, as it does of one
// without TLS: else each of those that there were when Redis started anew would cost a command, and the breaker its pause.
type secureConn struct {
	*tls.Conn
	timeout time.Duration
}

// SyscallConn implements syscall.Conn.
func (c secureConn) SyscallConn() (syscall.RawConn, error) {
	below, is := c.NetConn().(syscall.Conn)
	if !is {
		return nil, errors.ErrUnsupported
	}
	// Of bytes that nobody has read go-redis takes the first, without a limit: they may be none of an answer.
	if err := c.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return nil, err
	}
	return below.SyscallConn()
}

// tlsFor is the configuration of a connection to an address; nil: plain text.
func (o *Options) tlsFor(address string) *tls.Config {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if o.Secrets.TLS != nil {
		return o.Secrets.TLS(host)
	}
	if o.TLS == nil || o.TLS.ServerName != "" {
		return o.TLS
	}
	config := o.TLS.Clone()
	config.ServerName = host
	return config
}

// maxAuthReply limits the answer to AUTH.
const maxAuthReply = 1 << 10

// authenticate sends AUTH on a new connection.
func authenticate(ctx context.Context, conn net.Conn, user, password string) error {
	words := []string{"AUTH", password}
	if user != "" {
		words = []string{"AUTH", user, password}
	}
	var command strings.Builder
	command.WriteString("*" + strconv.Itoa(len(words)) + "\r\n")
	for _, word := range words {
		command.WriteString("$" + strconv.Itoa(len(word)) + "\r\n" + word + "\r\n")
	}
	if deadline, has := ctx.Deadline(); has {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := conn.Write([]byte(command.String())); err != nil {
		return err
	}
	// Nothing follows the line that answers.
	line, err := bufio.NewReaderSize(conn, maxAuthReply).ReadSlice('\n')
	if err != nil {
		return err
	}
	if answer := strings.TrimSpace(string(line)); answer != "+OK" {
		if text, refused := strings.CutPrefix(answer, "-"); refused {
			return replyError(text)
		}
		return fmt.Errorf("the sentinel answers %q to AUTH", answer)
	}
	return conn.SetDeadline(time.Time{})
}
