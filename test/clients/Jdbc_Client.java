// A pgJDBC program: prepareThreshold, autosave, fetch size, batches, COPY. Everything goes to stdout.
// Usage: java Jdbc_Client URL; user and password come from the environment.
import java.io.StringReader;
import java.io.StringWriter;
import java.sql.Array;
import java.sql.BatchUpdateException;
import java.sql.CallableStatement;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.copy.CopyManager;

public class Jdbc_Client {
	static String url;

	static void out(Object... what) {
		StringBuilder line = new StringBuilder();
		for (Object o : what) {
			line.append(o).append(' ');
		}
		System.out.println(line.toString().trim());
	}

	static Connection open(String... more) throws SQLException {
		Properties p = new Properties();
		p.setProperty("user", System.getenv("PGUSER"));
		p.setProperty("password", System.getenv("PGPASSWORD"));
		for (int i = 0; i < more.length; i += 2) {
			p.setProperty(more[i], more[i + 1]);
		}
		return DriverManager.getConnection(url, p);
	}

	static void failing(Statement s, String sql) {
		try {
			s.execute(sql);
			out("no error");
		} catch (SQLException e) {
			out(e.getSQLState(), e.getMessage().replace('\n', '|'));
		}
	}

	static void statements(String mode, String threshold) throws SQLException {
		try (Connection c = open("preferQueryMode", mode, "prepareThreshold", threshold);
				Statement s = c.createStatement()) {
			s.execute("drop table if exists jd");
			s.execute("create table jd (id serial primary key, v text, n numeric(8,2), at timestamptz, a int[])");
			try (PreparedStatement p = c.prepareStatement("insert into jd (v, n, at, a) values (?, ?, ?, ?)",
					Statement.RETURN_GENERATED_KEYS)) {
				for (int i = 0; i < 20; i++) {
					p.setString(1, "v" + i);
					p.setBigDecimal(2, new java.math.BigDecimal(i).movePointLeft(1));
					p.setTimestamp(3, new Timestamp(1_000_000_000_000L));
					p.setArray(4, c.createArrayOf("int", new Integer[] {i, i + 1}));
					p.executeUpdate();
					try (ResultSet keys = p.getGeneratedKeys()) {
						keys.next();
						if (i % 7 == 0) {
							out(mode, keys.getInt(1));
						}
					}
				}
			}
			try (PreparedStatement p = c.prepareStatement("insert into jd (v) values (?)")) {
				for (int i = 0; i < 300; i++) {
					p.setString(1, "batch" + i);
					p.addBatch();
				}
				out(p.executeBatch().length);
			}
			try (PreparedStatement p = c.prepareStatement("select * from jd where id = ?")) {
				for (int i = 1; i < 13; i++) {
					p.setInt(1, i);
					try (ResultSet r = p.executeQuery()) {
						r.next();
						if (i > 10) {
							Array a = r.getArray("a");
							out(r.getString("v"), r.getBigDecimal("n"), r.getTimestamp("at").getTime(), a);
						}
					}
				}
			}
			// (In simple mode this driver version sends the result as one more argument.)
			CallableStatement call = mode.equals("simple") ? null : c.prepareCall("{? = call upper(?)}");
			if (call != null) {
				call.registerOutParameter(1, Types.VARCHAR);
				call.setString(2, "called");
				call.execute();
				out(call.getString(1));
				call.close();
			}
			for (String sql : new String[] {"select 1/0", "selec", "insert into jd (id) values (1)",
					"select 1; select 1/0; select 2"}) {
				failing(s, sql);
			}
			try (PreparedStatement p = c.prepareStatement("insert into jd (id) values (?)")) {
				for (int id : new int[] {9001, 1, 9002}) {
					p.setInt(1, id);
					p.addBatch();
				}
				p.executeBatch();
			} catch (BatchUpdateException e) {
				out(e.getSQLState(), e.getUpdateCounts().length);
			}
			out(c.getMetaData().getDatabaseProductVersion());
			try (ResultSet r = c.getMetaData().getColumns(null, null, "jd", null)) {
				while (r.next()) {
					out(r.getString("COLUMN_NAME"), r.getString("TYPE_NAME"), r.getInt("NULLABLE"));
				}
			}
		}
	}

	static void parts() throws SQLException {
		try (Connection c = open("defaultRowFetchSize", "7")) {
			c.setAutoCommit(false);
			long sum = 0;
			try (Statement s = c.createStatement(); Statement other = c.createStatement();
					ResultSet r = s.executeQuery("select id from jd order by id")) {
				while (r.next()) {
					sum += r.getInt(1);
					if (r.getInt(1) % 50 == 0) {
						// Another statement while the portal of the first is open.
						other.executeQuery("select 1").close();
					}
				}
			}
			out(sum);
			c.commit();
			try (Statement s = c.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)) {
				ResultSet r = s.executeQuery("select id, v from jd order by id limit 3");
				r.last();
				r.updateString("v", "updated");
				r.updateRow();
				out(r.getRow(), r.getString(2));
			}
			c.rollback();
		}
	}

	static void autosave(String mode) throws SQLException {
		try (Connection c = open("autosave", mode, "prepareThreshold", "1"); Statement s = c.createStatement()) {
			c.setAutoCommit(false);
			s.execute("insert into jd (v) values ('kept')");
			failing(s, "select 1/0");
			failing(s, "select 1");
			try (PreparedStatement p = c.prepareStatement("select v from jd where v = ?")) {
				for (int i = 0; i < 3; i++) {
					p.setString(1, "kept");
					p.executeQuery().close();
				}
				s.execute("alter table jd alter v type varchar(200)");
				p.setString(1, "kept");
				try (ResultSet r = p.executeQuery()) {
					out(mode, r.next());
				}
			} catch (SQLException e) {
				out(mode, e.getSQLState());
			}
			Savepoint a = null;
			try {
				a = c.setSavepoint("a");
				s.execute("delete from jd");
				c.rollback(a);
			} catch (SQLException e) {
				out(e.getSQLState());
			}
			c.rollback();
		}
	}

	static void copies() throws Exception {
		try (Connection c = open(); Statement s = c.createStatement()) {
			CopyManager copy = c.unwrap(PGConnection.class).getCopyAPI();
			out(copy.copyIn("copy jd (id, v) from stdin with csv", new StringReader("5001,a\n5002,\"b,c\"\n")));
			StringWriter text = new StringWriter();
			out(copy.copyOut("copy (select id, v from jd where id > 5000 order by id) to stdout", text), text);
			try {
				copy.copyIn("copy jd (id, v) from stdin", new StringReader("bad\n"));
			} catch (SQLException e) {
				out(e.getSQLState());
			}
			try (ResultSet r = s.executeQuery("select 1")) {
				out(r.next());
			}
		}
	}

	static void others() throws Exception {
		try (Connection c = open("readOnly", "false", "options", "-c work_mem=7MB", "ApplicationName", "jd");
				Statement s = c.createStatement()) {
			for (String name : new String[] {"work_mem", "application_name", "extra_float_digits"}) {
				try (ResultSet r = s.executeQuery("show " + name)) {
					r.next();
					out(name, r.getString(1));
				}
			}
			s.execute("listen jd_news");
			try (Connection d = open(); Statement t = d.createStatement()) {
				t.execute("notify jd_news, 'x'");
			}
			PGNotification[] heard = c.unwrap(PGConnection.class).getNotifications(20000);
			out(heard.length, heard[0].getName(), heard[0].getParameter());
			s.execute("unlisten *");
			s.setQueryTimeout(1);
			failing(s, "select pg_sleep(20)");
			s.setQueryTimeout(0);
			c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
			c.setAutoCommit(false);
			try (ResultSet r = s.executeQuery("show transaction_isolation")) {
				r.next();
				out(r.getString(1));
			}
			c.commit();
			c.setReadOnly(true);
			failing(s, "insert into jd (v) values ('x')");
			c.rollback();
			c.setReadOnly(false);
			out(c.isValid(5), c.getSchema());
		}
	}

	static void threads() throws Exception {
		AtomicLong sum = new AtomicLong();
		ExecutorService pool = Executors.newFixedThreadPool(12);
		for (int n = 0; n < 12; n++) {
			final int me = n;
			pool.submit(() -> {
				try (Connection c = open("prepareThreshold", "2");
						PreparedStatement p = c.prepareStatement("select ?::int, current_setting('application_name')");
						Statement s = c.createStatement()) {
					s.execute("set application_name = 'me" + me + "'");
					for (int i = 0; i < 40; i++) {
						p.setInt(1, i);
						try (ResultSet r = p.executeQuery()) {
							r.next();
							sum.addAndGet(r.getString(2).equals("me" + me) ? r.getInt(1) : -1000000);
						}
					}
				} catch (SQLException e) {
					out("thread", e.getSQLState(), e.getMessage());
				}
			});
		}
		pool.shutdown();
		out(pool.awaitTermination(60, TimeUnit.SECONDS), sum.get());
	}

	public static void main(String[] args) throws Exception {
		url = args[0];
		for (String mode : new String[] {"extended", "simple", "extendedForPrepared", "extendedCacheEverything"}) {
			statements(mode, "5");
		}
		statements("extended", "1");
		statements("extended", "-1");
		parts();
		for (String mode : new String[] {"never", "always", "conservative"}) {
			autosave(mode);
		}
		copies();
		others();
		threads();
	}
}
