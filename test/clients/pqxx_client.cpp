// A libpqxx program: everything goes to stdout.
#include <iostream>
#include <pqxx/pqxx>

namespace {
class Printer : public pqxx::notification_receiver {
public:
	explicit Printer(pqxx::connection_base& c) : pqxx::notification_receiver(c, "pq_news") {}
	void operator()(const std::string& payload, int) override {
		std::cout << "heard " << payload << '\n';
		heard = true;
	}
	bool heard = false;
};

void failing(pqxx::connection& c, const std::string& sql) {
	try {
		pqxx::work w(c);
		w.exec(sql);
		std::cout << "no error\n";
	} catch (const pqxx::sql_error& e) {
		std::cout << e.sqlstate() << ' ' << e.what() << '\n';
	}
}
} // namespace

int main() {
	pqxx::connection c;
	{
		pqxx::work w(c);
		w.exec("drop table if exists pq");
		w.exec("create table pq (id int primary key, v text)");
		w.commit();
	}
	{
		pqxx::work w(c);
		pqxx::stream_to stream(w, "pq", std::vector<std::string>{"id", "v"});
		for (int i = 0; i < 300; ++i) {
			stream << std::make_tuple(i, "v" + std::to_string(i));
		}
		stream.complete();
		w.commit();
	}
	c.prepare("get", "select v from pq where id = $1");
	c.prepare("put", "update pq set v = $2 where id = $1");
	for (int i = 0; i < 5; ++i) {
		pqxx::work w(c);
		w.exec_prepared0("put", i, "new" + std::to_string(i));
		std::cout << w.exec_prepared1("get", i)[0].c_str() << '\n';
		w.commit();
	}
	{
		pqxx::work w(c);
		const auto r = w.exec_params("select $1::int + 1 as n, $2::text as t, $3::text is null", 4,
		                             "x", nullptr);
		std::cout << r[0]["n"].as<int>() << ' ' << r[0]["t"].c_str() << ' ' << r[0][2].as<bool>()
		          << '\n';
		pqxx::subtransaction sub(w, "inner");
		try {
			sub.exec("select 1/0");
		} catch (const pqxx::sql_error& e) {
			std::cout << e.sqlstate() << '\n';
			sub.abort();
		}
		std::cout << w.exec1("select count(*) from pq")[0].as<int>() << '\n';
		pqxx::icursorstream rows(w, "select id from pq order by id", "cur", 40);
		long sum = 0;
		pqxx::result part;
		while (rows >> part) {
			for (const auto& row : part) {
				sum += row[0].as<long>();
			}
		}
		std::cout << sum << '\n';
		w.commit();
	}
	{
		pqxx::nontransaction w(c);
		pqxx::pipeline p(w);
		const auto a = p.insert("select 1");
		const auto b = p.insert("select 'two'");
		std::cout << p.retrieve(b)[0][0].c_str() << p.retrieve(a)[0][0].c_str() << '\n';
		p.complete();
	}
	for (const char* sql : {"select 1/0", "selec", "insert into pq values (1)"}) {
		failing(c, sql);
	}
	{
		Printer printer(c);
		pqxx::connection other;
		pqxx::nontransaction w(other);
		w.exec("notify pq_news, 'hello'");
		for (int i = 0; i < 20 && !printer.heard; ++i) {
			c.await_notification(1, 0);
		}
	}
	pqxx::perform([&c] {
		pqxx::transaction<pqxx::serializable> w(c);
		std::cout << w.exec1("show transaction_isolation")[0].c_str() << '\n';
		w.exec("drop table pq");
		w.commit();
	});
	return 0;
}
