// Loads a model of vectors, finds the nearest ones for queries, and recommends them to the same queries as sparse rows.
import static java.lang.foreign.ValueLayout.*;

import java.lang.foreign.*;
import java.util.Arrays;
import java.util.stream.Stream;

class Search {
  static final int QUERIES = 2, SIZE = 3, K = 2, FOUND = QUERIES * K;
  static final Arena memory = Arena.global();
  static final MemorySegment none = MemorySegment.NULL, error = memory.allocate(1036, 8); // a dsstne_error
  static SymbolLookup library;

  static void call(String name, Object... arguments) throws Throwable {
    var all = Stream.concat(Arrays.stream(arguments), Stream.of(error)).toArray();
    var types = Arrays.stream(all).map(a -> a instanceof Long ? JAVA_LONG : ADDRESS).toArray(MemoryLayout[] ::new);
    var function = library.find("dsstne_" + name).orElseThrow(); // dsstne_status (pointers and 64-bit numbers)
    var handle = Linker.nativeLinker().downcallHandle(function, FunctionDescriptor.of(JAVA_INT, types));
    if ((int) handle.invokeWithArguments(all) != 0) throw new RuntimeException(name + ": " + error.getString(8));
  }

  public static void main(String[] arguments) throws Throwable {
    library = SymbolLookup.libraryLookup(arguments[0], memory);
    error.set(JAVA_INT, 0, 1036); // struct_size
    var queries = memory.allocateFrom(JAVA_FLOAT, 1, 2, 3, -3, -2, -1);
    MemorySegment model = memory.allocate(JAVA_LONG), predictor = memory.allocate(JAVA_LONG);
    MemorySegment[] ids = new MemorySegment[2], scores = new MemorySegment[2];
    for (int i = 0; i < 2; i++) {
      ids[i] = memory.allocate(JAVA_INT, FOUND);
      scores[i] = memory.allocate(JAVA_FLOAT, FOUND);
    }
    call("model_load", memory.allocateFrom(arguments[1]), none, model);
    call("predictor_open", model.get(JAVA_LONG, 0), none, predictor);
    long open = predictor.get(JAVA_LONG, 0);
    call("predictor_search", open, none, queries, (long) QUERIES, (long) SIZE, none, 0L, (long) K, none, ids[0],
        scores[0]);

    var rows = memory.allocate(88, 8); // a dsstne_dataset_info: struct_size, the bits of indices, offsets and values
    MemorySegment.copy(new int[] {88, 32, 32, 32}, 0, rows, JAVA_INT, 0, 4);
    MemorySegment.copy(new long[] {QUERIES, SIZE, QUERIES * SIZE}, 0, rows, JAVA_LONG, 16, 3);
    rows.set(ADDRESS, 64, memory.allocateFrom(JAVA_INT, 0, SIZE, 2 * SIZE)); // the offsets
    rows.set(ADDRESS, 72, memory.allocateFrom(JAVA_INT, 0, 1, 2, 0, 1, 2)); // the indices
    rows.set(ADDRESS, 80, queries);
    call("predictor_serve", open, none, 0L, (long) K, none);
    call("predictor_ask", open, rows, 1L, none, (long) K, ids[1], scores[1]);
    for (int i = 0; i < FOUND; i++) {
      for (int way = 0; way < 2; way++)
        System.out.print(ids[way].getAtIndex(JAVA_INT, i) + " " + scores[way].getAtIndex(JAVA_FLOAT, i) + " ");
      System.out.println();
    }
    call("predictor_close", open);
    call("model_close", model.get(JAVA_LONG, 0));
  }
}
