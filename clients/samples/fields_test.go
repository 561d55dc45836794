package samples

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

var update = flag.Bool("update", false, "rewrite the tables of fields in docs/guides/metric-sources.md")

// documented are the types of the configuration, with their headings in the docs.
var documented = []struct {
	heading string
	of      reflect.Type
}{
	{"A source", reflect.TypeFor[Source]()},
	{"`prometheus` and `http`", reflect.TypeFor[Server]()},
	{"`redis`", reflect.TypeFor[Redis]()},
	{"`tls`", reflect.TypeFor[TLS]()},
	{"A query", reflect.TypeFor[Query]()},
	{"A named metric", reflect.TypeFor[NamedMetric]()},
}

func TestFieldsAreDocumented(t *testing.T) {
	const page, from, to = "../../docs/guides/metric-sources.md", "<!-- fields -->\n", "<!-- /fields -->"
	comments := fieldComments(t)
	var tables strings.Builder
	for _, d := range documented {
		fmt.Fprintf(&tables, "\n### %s\n\n| key | meaning |\n|---|---|\n", d.heading)
		for i := range d.of.NumField() {
			field := d.of.Field(i)
			comment := comments[d.of.String()+"."+field.Name]
			if comment == "" {
				t.Errorf("%s.%s has no comment", d.of.Name(), field.Name)
			}
			fmt.Fprintf(&tables, "| %s | %s |\n", key(field), comment)
		}
	}
	text := testpages.Read(t, page)
	before, rest, ok := strings.Cut(text, from)
	_, after, closed := strings.Cut(rest, to)
	if !ok || !closed {
		t.Fatalf("%s has no place for the tables", page)
	}
	want := before + from + tables.String() + "\n" + to + after
	if want == text {
		return
	}
	if !*update {
		t.Fatalf("%s does not have the fields as they are: run go test ./clients/samples -run Fields -update", page)
	}
	fatal.If(t, os.WriteFile(page, []byte(want), 0o644))
}

// key is the key of a field; an embedded query has several.
func key(field reflect.StructField) string {
	if field.Anonymous {
		return "a query's keys"
	}
	return "`" + jsonName(field) + "`"
}

// jsonName is the JSON name of a field.
func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// fieldComments returns the comments of fields by type and name, with the keys in place of Go's
// names.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	keys := map[string]string{}
	for _, d := range documented {
		for i := range d.of.NumField() {
			keys[d.of.Field(i).Name] = jsonName(d.of.Field(i))
		}
	}
	word := regexp.MustCompile(`[A-Za-z]+`)
	spelled := func(comment string) string {
		name, rest, _ := strings.Cut(comment, " ")
		rest = word.ReplaceAllStringFunc(rest, func(w string) string {
			// Words that are only names of fields.
			if key, ok := keys[w]; ok && strings.ToLower(w[1:]) != w[1:] && strings.ToUpper(w) != w {
				return "`" + key + "`"
			}
			return w
		})
		return strings.TrimPrefix(strings.ReplaceAll("`"+keys[name]+"` "+rest, "|", `\|`), "`"+keys[name]+"` ")
	}
	out := map[string]string{}
	files := token.NewFileSet()
	for _, name := range []string{"config.go", "httpapi/httpapi.go", "source/files.go", "redis/redis.go", "source/query.go", "named.go"} {
		file, err := parser.ParseFile(files, name, nil, parser.ParseComments)
		fatal.If(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				return false
			}
			for _, field := range fields.Fields.List {
				names := field.Names
				if embedded, ok := field.Type.(*ast.Ident); ok && len(names) == 0 {
					names = []*ast.Ident{embedded}
				}
				for _, fieldName := range names {
					comment := strings.Join(strings.Fields(field.Doc.Text()), " ")
					if comment != "" {
						out[file.Name.Name+"."+spec.Name.Name+"."+fieldName.Name] = sentence(spelled(comment))
					}
				}
			}
			return false
		})
	}
	return out
}

// sentence capitalizes a comment: the leading name is the row's key.
func sentence(text string) string {
	text = strings.TrimPrefix(strings.TrimPrefix(text, "is "), "are ")
	return strings.ToUpper(text[:1]) + text[1:]
}
