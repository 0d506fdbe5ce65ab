package checkback;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathIOException;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Spark's checkpoint files on an object store, where an object appears whole when it is closed.
 *
 * <p>Spark's own managers write a draft and rename it. A rename on such a store is a copy and a
 * deletion, and nothing keeps it from replacing another driver's file. This one writes each file in
 * its place with one request, and a file that must be new only if there is none (If-None-Match).
 *
 * <p>Written for Janino, the compiler that Spark ships: no lambdas, no type inference.
 */
public class ConditionalFileManager extends FileSystemBasedCheckpointFileManager {

  private static final String ONLY_IF_NEW = "fs.option.create.conditional.overwrite";

  /** Skips the requests that look for a folder of the file's name, and for its parents. */
  private static final String WITHOUT_PROBES = "fs.s3a.create.performance";

  public ConditionalFileManager(Path path, Configuration configuration) {
    super(path, configuration);
  }

  public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(
      Path path, boolean overwrite) {
    try {
      FSDataOutputStreamBuilder builder = this.fs().createFile(path);
      builder.recursive();
      builder.opt(WITHOUT_PROBES, true);
      if (overwrite) {
        builder.overwrite(true);
      } else {
        if (this.fs().exists(path)) {
          throw new FileAlreadyExistsException(path.toString());
        }
        builder.must(ONLY_IF_NEW, true);
      }
      return new WholeFile(path, (FSDataOutputStream) builder.build());
    } catch (IOException error) {
      throw ConditionalFileManager.unchecked(error);
    }
  }

  /** Spark's signature in Scala names no exception; Spark expects the exception itself. */
  private static RuntimeException unchecked(Throwable error) {
    org.apache.spark.unsafe.Platform.throwException(error);
    return new IllegalStateException(error);
  }

  /** A file that appears when it is closed, or not at all. */
  public static class WholeFile extends CheckpointFileManager.CancellableFSDataOutputStream {

    private final Path path;
    private final FSDataOutputStream stream;
    private boolean ended = false;

    public WholeFile(Path path, FSDataOutputStream stream) {
      super(stream);
      this.path = path;
      this.stream = stream;
    }

    public void close() throws IOException {
      if (this.ended) {
        return;
      }
      this.ended = true;
      try {
        this.stream.close();
      } catch (PathIOException error) {
        // 412: another driver's file is there. Spark ends the query with what it says of that.
        if (error.getClass().getSimpleName().equals("RemoteFileChangedException")) {
          throw new FileAlreadyExistsException(this.path.toString());
        }
        throw error;
      }
    }

    public void cancel() {
      if (!this.ended) {
        this.ended = true;
        this.stream.abort();
      }
    }
  }
}
