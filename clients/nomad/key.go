package nomad

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/setpoint-dev/setpoint/clients/agent"
)

// Kind is that of all objects: a task group.
const Kind = "TaskGroup"

// maxName bounds a name, bytes, so that a shadow's suffix fits into the 253 that the service
// takes.
const maxName = 240

// KeyOf is the key of a task group. Its name is "JOB.GROUP", where letters, digits, "-" and "_"
// stay, but for a group's leading "-", and any other byte is ".-" with two hexadecimal digits:
// group web of job etl/load is "etl.-2fload.web". No two groups of a namespace have one name. A name
// that would be too long ends in a checksum instead.
func KeyOf(g Group) agent.Key {
	name := escape(g.Job, false) + "." + escape(g.Name, true)
	if len(name) > maxName {
		sum := sha256.Sum256([]byte(name))
		name = name[:maxName-3-2*16] + ".-h" + hex.EncodeToString(sum[:16])
	}
	return agent.Key{Kind: Kind, Namespace: g.Namespace, Name: name}
}

// shadowSuffix ends the names of shadows. No name of a group ends so.
const shadowSuffix = ".-shadow"

func escape(part string, leading bool) string {
	var out strings.Builder
	for i := range len(part) {
		switch c := part[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-' && (i > 0 || !leading):
			out.WriteByte(c)
		default:
			out.WriteString(".-" + hex.EncodeToString([]byte{c}))
		}
	}
	return out.String()
}
