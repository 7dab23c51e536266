package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// Types whose message and whose JSON differ by more than the names of their fields.
var specialMessages = map[string]string{
	"api.resource.Quantity":    "quantity",
	"meta.v1.FieldsV1":         "raw",
	"meta.v1.MicroTime":        "microtime",
	"meta.v1.Time":             "time",
	"pkg.runtime.RawExtension": "raw",
	"util.intstr.IntOrString":  "intorstring",

	// Choices have one form in JSON and another as a message.
	"apiextensions.v1.JSON":                         "raw",
	"apiextensions.v1.JSONSchemaPropsOrArray":       "schemaorlist",
	"apiextensions.v1.JSONSchemaPropsOrBool":        "schemaorbool",
	"apiextensions.v1.JSONSchemaPropsOrStringArray": "schemaorstrings",
}

// The message of schemas, which contain themselves.
const schemaMessage = "apiextensions.v1.JSONSchemaProps"

// A kind that cannot be written as a table of fields, and why.
type unsupported string

// printProtobuf prints the fields of the messages that kinds are sent in, as `crates/steersman-wire/src/protobuf/table.rs`
// reads them: a line for each kind with the name of its message, and a line for each message with its fields.
func printProtobuf(out io.Writer) error {
	kinds, messages := map[string]string{}, map[string]string{}
	for kind, known := range scheme.Scheme.AllKnownTypes() {
		if kind.Version == runtime.APIVersionInternal || !hasMetadata(known) {
			continue
		}
		if message, ok := messagesOf(known, messages); ok {
			kinds[kind.GroupVersion().String()+" "+kind.Kind] = message
		}
	}
	for kind, known := range map[string]reflect.Type{
		// In every version of every group; they are all the same.
		"v1 DeleteOptions":                     reflect.TypeFor[metav1.DeleteOptions](),
		"v1 Status":                            reflect.TypeFor[metav1.Status](),
		"meta.k8s.io/v1 PartialObjectMetadata": reflect.TypeFor[metav1.PartialObjectMetadata](),
	} {
		message, ok := messagesOf(known, messages)
		if !ok {
			return fmt.Errorf("%s has no table of fields", kind)
		}
		kinds[kind] = message
	}
	buffered := bufio.NewWriter(out)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(buffered, "%s %s\n", kind, kinds[kind])
	}
	fmt.Fprintln(buffered)
	for _, message := range slices.Sorted(maps.Keys(messages)) {
		fmt.Fprintf(buffered, "%s%s\n", message, messages[message])
	}
	return buffered.Flush()
}

func hasMetadata(t reflect.Type) bool {
	field, ok := t.FieldByName("ObjectMeta")
	return ok && field.Type == reflect.TypeFor[metav1.ObjectMeta]()
}

// messagesOf adds the message of a type and those within it; none if one of them is no plain message.
func messagesOf(t reflect.Type, messages map[string]string) (message string, ok bool) {
	found := map[string]string{}
	defer func() {
		if problem := recover(); problem != nil {
			if _, is := problem.(unsupported); !is {
				panic(problem)
			}
			return
		}
		maps.Copy(messages, found)
	}()
	return messageType(t, found), true
}

// messageType writes a type as the table has it, and collects the messages in it.
func messageType(t reflect.Type, messages map[string]string) string {
	if known, ok := specialMessages[name(t)]; ok {
		return known
	}
	if t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(unmarshaler) {
		panic(unsupported(name(t) + " has its own way of reading JSON"))
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return t.Kind().String()
	case reflect.Pointer:
		return "*" + messageType(t.Elem(), messages)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		element := messageType(t.Elem(), messages)
		// A list that has a name and is repeated itself, or is a value of a map, is a message with the one field `items`.
		if reflect.PointerTo(t).Implements(reflect.TypeFor[unmarshalerOfProtobuf]()) {
			if element != "string" {
				panic(unsupported(name(t) + " is a message with a list of " + element))
			}
			return "strings"
		}
		return "[]" + element
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			panic(unsupported(name(t) + " has keys that are no texts"))
		}
		return "map:" + messageType(t.Elem(), messages)
	case reflect.Struct:
		if _, done := messages[name(t)]; !done {
			messages[name(t)] = ""
			messages[name(t)] = messageFields(t, messages)
		}
		if name(t) == schemaMessage {
			return "schema"
		}
		return name(t)
	default:
		panic(unsupported(name(t) + " is a " + t.Kind().String()))
	}
}

type unmarshalerOfProtobuf interface{ Unmarshal([]byte) error }

// messageFields writes the fields of a message, each as ` NUMBER,"NAME":TYPE`, in the order in which Go writes them as JSON. A
// question mark behind the type says that an empty value is left out of JSON. Fields of a message without a name are in JSON
// fields of the message around it.
func messageFields(t reflect.Type, messages map[string]string) string {
	text := ""
	for i := range t.NumField() {
		field := t.Field(i)
		tag, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Type == reflect.TypeFor[metav1.TypeMeta]() {
			continue
		}
		numbered := strings.Split(field.Tag.Get("protobuf"), ",")
		if len(numbered) < 2 {
			panic(unsupported(name(t) + "." + field.Name + " has no number"))
		}
		// Go takes no struct for empty unless it is told to compare.
		option := "omitempty"
		if field.Type.Kind() == reflect.Struct {
			option = "omitzero"
		}
		omit := ""
		if slices.Contains(strings.Split(options, ","), option) {
			omit = "?"
		}
		text += " " + numbered[1] + `,"` + tag + `":` + messageType(field.Type, messages) + omit
	}
	return text
}
