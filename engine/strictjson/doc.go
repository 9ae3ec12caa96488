// Package strictjson reads JSON objects that people write: options and definitions.
//
// Parse gives an Object, whose getters take what they know and say what they allow. Errors are collected, so that
// reading stays a list of assignments, and Done returns the first one:
//
//	o, err := strictjson.Parse(text, "trainer options")
//	if err != nil {
//		return err
//	}
//	t.epochs = o.Int("epochs", 20, strictjson.AtLeast(1))
//	t.dropout = o.Float32("dropout", 0, strictjson.Fraction)
//	t.optimizer = o.Word("optimizer", "adam", "adam", "sgd", "momentum")
//	for _, entry := range o.Objects("layers") {
//		t.layers = append(t.layers, entry.String("name", ""))
//	}
//	return o.Done()
//
// Every message names the document, the path, the value found and what is allowed, as in
//
//	network definition: layers[2].activation is "tahn"; it must be one of linear, sigmoid, tanh, relu, elu, selu;
//	did you mean "tanh"?
//
// ParseFolded is for documents in which letter case has no meaning, and Title names an object as its readers know it.
//
// A key that no getter asked for is an error; so are duplicate keys, numbers out of range, and text after the object. A
// value of null counts as not given. All errors are of kind fault.InvalidArgument.
package strictjson
